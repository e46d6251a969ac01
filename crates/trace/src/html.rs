//! The report as a page.

use crate::Report;

impl Report {
    /// The report as a page that needs nothing from outside: verdict, chart and table.
    pub fn html(&self) -> String {
        self.to_string()
    }
}
