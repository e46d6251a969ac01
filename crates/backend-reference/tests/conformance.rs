//! The conformance suite of backends.

use backend::Backend;
use backend_reference::Reference;

fn reference() -> Box<dyn Backend> {
    Box::new(Reference::new())
}

testkit::conformance!(reference, reference);
