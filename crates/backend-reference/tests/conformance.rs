//! The conformance suite of backends.

use backend_reference::Reference;

testkit::conformance!(Box::new(Reference::new()), Box::new(Reference::new()));
