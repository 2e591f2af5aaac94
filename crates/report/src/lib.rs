//! Renders series and grids of numbers as SVG, and a report around them as one HTML page. The same numbers give
//! the same bytes; colours can be distinguished with any colour vision, and every figure has a text alternative.
//! Does no input or output.
//!
//! ```
//! use fairstream_report::{Axis, Behind, LinePlot, Series};
//!
//! let plot = LinePlot {
//!     title: "Acceptance rates".to_owned(),
//!     description: "M stays at 0.5, F falls to 0.2.".to_owned(),
//!     x: Axis::new("applicants"),
//!     y: Axis::new("estimate").within(0.0, 1.0),
//!     series: vec![
//!         Series::new("M", vec![(0.0, 0.5), (100.0, 0.5)]),
//!         Series::new("F", vec![(0.0, 0.5), (100.0, 0.2)]),
//!     ],
//!     limits: vec![],
//!     behind: Behind::default(),
//! };
//! let svg = plot.svg();
//! assert!(svg.starts_with("<svg") && svg.contains(">applicants</text>"));
//! ```

mod heat;
mod html;
mod plot;
mod scale;
mod sheet;
mod svg;

pub use heat::{HeatMap, Shading};
pub use html::{Alarm, Group, Page, Section, State};
pub use plot::{Axis, Behind, LinePlot, Series};
pub use scale::grouped;
pub use sheet::Sheet;
