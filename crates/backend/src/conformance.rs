//! Tests every backend mounts.
