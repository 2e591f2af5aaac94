//! Data and files from strangers: nothing vanishes silently, nothing runs or is overwritten unasked, nothing takes memory
//! or time without a bound.

mod display;
mod inputs;
mod plugins;
mod specifications;
mod stopping;
mod time;
mod trust;
