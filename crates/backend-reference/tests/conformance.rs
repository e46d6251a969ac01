//! The suite every backend mounts.

use backend_reference::Reference;

testkit::conformance!(Box::new(Reference::new()), Box::new(Reference::new()));
