//! Turns the events of a scenario into a source of batches.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fairstream_core::{
    Cause, EventBatch, Position, Source, SourceContext, SourceError, SourceRequest, Time, TimeFormat,
    WantedColumn,
};

/// The events of a scenario, in order of time. The same setup always gives the same events.
pub(crate) trait Course: Send {
    /// An event.
    type Event: Send;

    /// The next event, or `None` at the end, also when called again.
    fn next_event(&mut self) -> Option<(Time, Self::Event)>;

    /// The events as columns, in the order of the scenario's columns.
    fn columns(&self, events: &[(Time, Self::Event)]) -> Vec<ArrayRef>;
}

/// A course as a source.
pub(crate) struct Scene<C: Course> {
    name: String,
    course: C,
    offers: Vec<WantedColumn>,
    /// For each column of the schema: the index of the scenario's column.
    places: Vec<usize>,
    schema: SchemaRef,
    relative: bool,
    context: SourceContext,
    /// Identifies the scenario and its setup in positions, so that a position of another scenario is refused.
    identity: Arc<[u8]>,
    rows: u64,
    events: Vec<(Time, C::Event)>,
}

/// Rows between two checks of the time.
const GLANCE: usize = 1024;

impl<C: Course> Scene<C> {
    /// Starts a course from the beginning, or from the position of the request. `identity` is the same for two
    /// courses only if they are the same.
    pub(crate) fn new(
        name: &str,
        identity: &str,
        course: C,
        offers: Vec<WantedColumn>,
        time_format: TimeFormat,
        request: &SourceRequest,
    ) -> Result<Scene<C>, SourceError> {
        let (mut places, mut fields) = (Vec::new(), Vec::new());
        for wanted in &request.wanted {
            let Some(place) = offers.iter().position(|own| own.name == wanted.name) else { continue };
            let own = &offers[place].data_type;
            let data_type = if can_be_read_as(own, &wanted.data_type) { &wanted.data_type } else { own };
            fields.push(Field::new(&wanted.name, data_type.clone(), true));
            places.push(place);
        }
        let mut running = Scene {
            name: name.to_owned(),
            course,
            offers,
            places,
            schema: Arc::new(Schema::new(fields)),
            relative: time_format == TimeFormat::Relative,
            context: request.context.clone(),
            identity: identity.as_bytes().into(),
            rows: 0,
            events: Vec::new(),
        };
        if let Some(position) = &request.resume {
            running
                .go_to(position)
                .map_err(|cause| SourceError::Open { origin: running.name.clone(), cause })?;
        }
        Ok(running)
    }

    /// Generates and discards the events before the position.
    fn go_to(&mut self, position: &Position) -> Result<(), Cause> {
        if position.resume != self.identity {
            return Err("the position is not one of this scenario".into());
        }
        while self.rows < position.rows {
            self.course.next_event().ok_or("it has fewer events than it had before")?;
            self.rows += 1;
        }
        Ok(())
    }

    fn batch(&self) -> Result<EventBatch, Cause> {
        let columns = self.course.columns(&self.events);
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let columns: Result<Vec<ArrayRef>, _> = self
            .places
            .iter()
            .zip(self.schema.fields())
            .map(|(place, field)| cast_with_options(&columns[*place], field.data_type(), &strict))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.events.len()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns?, &options)?;
        let times: Vec<i64> = self.events.iter().map(|(time, _)| time.0).collect();
        let first = self.rows - self.events.len() as u64 + 1;
        let numbers: Vec<u64> = (first..=self.rows).collect();
        let end = Position { rows: self.rows, resume: Arc::clone(&self.identity) };
        let mut events = EventBatch::new(rows, times, numbers, end);
        events.relative = self.relative;
        Ok(events)
    }
}

/// Integers can be requested as other integer types, where they fit.
fn can_be_read_as(own: &DataType, wanted: &DataType) -> bool {
    own == wanted || (own.is_integer() && (wanted.is_integer() || *wanted == DataType::Float64))
}

impl<C: Course> Source for Scene<C> {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn offers(&self) -> Vec<String> {
        self.offers.iter().map(|column| column.name.clone()).collect()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        let start = Instant::now();
        self.events.clear();
        let in_time = |held: usize| !held.is_multiple_of(GLANCE) || start.elapsed() < self.context.max_age;
        while self.events.len() < self.context.max_rows.get()
            && !self.context.stop.is_stopped()
            && (self.events.is_empty() || in_time(self.events.len()))
        {
            let Some(event) = self.course.next_event() else { break };
            self.events.push(event);
        }
        if self.events.is_empty() {
            return Ok(None);
        }
        let before = self.rows;
        self.rows += self.events.len() as u64;
        let failed = |cause| SourceError::Read { origin: self.name.clone(), row: before, cause };
        self.batch().map(Some).map_err(failed)
    }
}
