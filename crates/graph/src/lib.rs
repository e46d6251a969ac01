//! A model as a small graph whose every value has a name.
