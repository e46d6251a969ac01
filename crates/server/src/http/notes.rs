//! Notes on how a request was answered, as headers of the answer, whatever the protocol.

use std::cell::RefCell;
use std::future::Future;

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;

/// The format of tool calls, if the model's template writes no tools: `generic`.
pub(crate) const TOOL_FORMAT: &str = "x-tool-format";

/// The parts of schemas that are not enforced.
pub(crate) const LEFT_OPEN: &str = "x-left-open";

/// Names in a header, and bytes of each, at most.
const MAX_NAMES: usize = 32;
const MAX_NAME: usize = 64;

/// Names for headers.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<(&'static str, Vec<String>)>);

tokio::task_local! {
    static NOTES: RefCell<Notes>;
}

/// The result of `handler`, and the notes that it has made.
pub(crate) async fn collect<T>(handler: impl Future<Output = T>) -> (T, Notes) {
    NOTES
        .scope(RefCell::default(), async {
            let done = handler.await;
            (done, NOTES.with(RefCell::take))
        })
        .await
}

/// Notes `names` for the `header` of the answer to the request that this task handles.
pub(crate) fn add(header: &'static str, names: impl IntoIterator<Item = impl AsRef<str>>) {
    let names = names.into_iter().map(|name| name.as_ref().to_owned());
    // Without effect where no request is handled.
    let _ = NOTES.try_with(|notes| notes.borrow_mut().0.extend(list(header, names).0));
}

/// Notes of one header.
pub(crate) fn list(header: &'static str, names: impl Iterator<Item = String>) -> Notes {
    // A name is what the client says: any text, of any length.
    let shown = |name: &String| name.len() <= MAX_NAME && HeaderValue::from_str(name).is_ok();
    Notes(vec![(header, names.filter(shown).take(MAX_NAMES).collect())])
}

impl Notes {
    pub(crate) fn write(self, response: &mut Response) {
        for (header, names) in self.0 {
            if !names.is_empty()
                && let Ok(value) = HeaderValue::from_str(&names.join(", "))
            {
                response.headers_mut().insert(HeaderName::from_static(header), value);
            }
        }
    }
}
