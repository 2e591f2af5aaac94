//! End-to-end tests: everything through the public interfaces, as users meet it.

mod conformance;
mod support;
