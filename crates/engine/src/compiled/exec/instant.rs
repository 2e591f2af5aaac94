//! The steps of an instant, and its end.

use super::cx::Cx;
use super::error::EvalError;
use super::input_batch::InputBatch;
use super::propagate::{ChangeSource, mark_dependents};
use crate::compiled::ir::step::{Step, Target};
use crate::compiled::store::state::{Store, WHOLE};

impl Cx<'_> {
    /// Stores the value of an input in a row of the batch.
    #[inline]
    pub(crate) fn accept_input(
        &mut self,
        input: usize,
        batch: &InputBatch,
        row: usize,
    ) -> Result<(), Box<EvalError>> {
        let Cx { plan, store, changes, .. } = self;
        let cell = &plan.inputs[input];
        let value = batch.value(input, row);
        let dependents = &plan.input_dependents[input];
        if !dependents.is_empty() && store.cell_past(cell, input, 0) != Some(value) {
            mark_dependents(store, plan, dependents, ChangeSource::Whole);
        }
        changes.add_fresh(cell.fresh);
        store.push_cell(cell, input, |frame, to| match value {
            [word] => frame[to] = *word,
            words => frame[to..to + words.len()].copy_from_slice(words),
        });
        for window in &plan.input_windows[input] {
            let (now, window_plan) = (store.this_instant(), &plan.windows[*window]);
            let Store { windows, interner, .. } = &mut **store;
            windows[*window]
                .accept(window_plan, WHOLE, value, now, interner)
                .map_err(|fault| EvalError::in_window(window_plan.reader, *window, fault))?;
            mark_dependents(store, plan, &window_plan.dependents, ChangeSource::Whole);
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn run_step(&mut self, step: &Step) -> Result<(), Box<EvalError>> {
        match step {
            Step::Spawn(family) => self.spawn(*family),
            Step::Evaluate(stream, Target::Expired(timer)) => self.evaluate_expired(*stream, *timer),
            Step::Evaluate(stream, Target::Lookup(clauses)) => self.evaluate_found(*stream, clauses),
            Step::Evaluate(stream, Target::All) => self.evaluate(*stream),
            Step::Evaluate(stream, Target::Dirty) => self.evaluate_dirty(*stream),
            Step::Close(family, Target::Lookup(_)) => self.close_found(*family),
            Step::Close(family, _) => self.close(*family),
        }
    }

    /// Ends the instances that close, and clears what is of this instant only.
    pub(crate) fn end_instant(&mut self) -> Result<(), Box<EvalError>> {
        while let Some(stream) = self.changes.pop_valued() {
            self.store.streams[stream].valued.clear();
        }
        if self.changes.has_moved() {
            self.end_closing()?;
        }
        while let Some(fresh) = self.changes.pop_fresh() {
            self.store.frame[fresh as usize] = 0;
        }
        Ok(())
    }

    fn end_closing(&mut self) -> Result<(), Box<EvalError>> {
        // In reverse: a reader is usually declared after what it reads, and need not be marked once it has ended.
        for family in self.changes.take_moved().into_iter().rev() {
            let mut closing = std::mem::take(self.changes.closing(family));
            for slot in &closing {
                self.end(family, *slot)?;
            }
            closing.clear();
            *self.changes.closing(family) = closing;
            self.changes.spawned(family).clear();
        }
        Ok(())
    }
}
