//! Chat templates: from messages to the text a model expects.
