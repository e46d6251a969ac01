//! Model families: configuration and graph.
