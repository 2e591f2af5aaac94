//! The engines that are compared.

use bench::monitor::Monitor;
use bench::workload::Workload;
use fairstream_core::Time;

pub(crate) const HAND: &str = "hand";
pub(crate) const COMPILED: &str = "compiled";
pub(crate) const REFERENCE: &str = "reference";

pub(crate) fn by_hand(workload: &Workload, start: Time) -> anyhow::Result<Box<dyn Monitor>> {
    Ok(workload.by_hand(start))
}

pub(crate) fn compiled(workload: &Workload, start: Time) -> anyhow::Result<Box<dyn Monitor>> {
    workload.compiled(start)
}

pub(crate) fn reference(workload: &Workload, start: Time) -> anyhow::Result<Box<dyn Monitor>> {
    workload.reference(start)
}
