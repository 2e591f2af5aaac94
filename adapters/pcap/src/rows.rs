//! Converts packets to rows, for files and interfaces.

use arrow::datatypes::DataType;
use fairstream_core::{
    BadOption, OptionDoc, Options, RejectedRow, SourceError, SourceRequest, Time, WantedColumn,
};
use fairstream_files::Column;

use crate::capture::Captured;
use crate::field::{DIRECTION, Field, PacketContext};
use crate::network::Networks;

pub(crate) const LOCAL_NETWORK: OptionDoc = OptionDoc::new(
    "local_network",
    "",
    "what `direction` takes for local: networks such as `192.168.0.0/16,fd00::/8`",
);

/// The requested columns of packets.
pub(crate) struct Bound {
    fields: Vec<&'static Field>,
    /// Each in the requested type; in its own type if it cannot be read as requested.
    pub(crate) columns: Vec<WantedColumn>,
    local: Networks,
}

impl Bound {
    /// Selects the requested columns that packets have.
    ///
    /// # Errors
    /// The local networks are missing although a requested column depends on them; or they are invalid.
    pub(crate) fn new(request: &SourceRequest) -> Result<Bound, SourceError> {
        let local = networks(&request.options).map_err(|bad| request.refuse(bad))?;
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for wanted in &request.wanted {
            let Some(field) = Field::find(&wanted.name) else { continue };
            if field.name == DIRECTION && local.is_none() && wanted.data_type == DataType::Utf8 {
                let cause = "`direction` depends on which addresses are local; append \
                             `?local_network=192.168.0.0/16`, or whatever they are";
                return Err(request.cannot_open(cause));
            }
            let data_type =
                if field.fits(&wanted.data_type) { wanted.data_type.clone() } else { field.data_type() };
            fields.push(field);
            columns.push(WantedColumn::new(field.name, data_type));
        }
        Ok(Bound { fields, columns, local: local.unwrap_or_default() })
    }

    /// The names of all columns that packets have.
    pub(crate) fn offers() -> Vec<String> {
        Field::all().map(|field| field.name.to_owned()).collect()
    }

    /// Appends the values of packet `row` to the columns. Returns its time.
    pub(crate) fn append(
        &self,
        captured: Captured<'_>,
        row: u64,
        columns: &mut [Column],
    ) -> Result<Option<Time>, RejectedRow> {
        let seen = PacketContext::new(captured, &self.local);
        for (field, column) in self.fields.iter().zip(columns) {
            let bad = |reason| RejectedRow { row, column: Some(field.name.to_owned()), reason };
            field.append(&seen, column).map_err(bad)?;
        }
        Ok(Some(captured.time))
    }
}

fn networks(options: &Options) -> Result<Option<Networks>, BadOption> {
    match options.text(LOCAL_NETWORK.name) {
        None => Ok(None),
        Some(_) => options.parse(LOCAL_NETWORK.name, Networks::default()).map(Some),
    }
}
