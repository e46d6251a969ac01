//! What a backend is: the traits, a step's inputs, and the conformance suite.
