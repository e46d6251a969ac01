//! Pointers of git-lfs: the small files that `git clone` leaves where large ones belong.

/// What to do about `bytes`, if they are such a pointer (<https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md>).
pub(crate) fn pointer(bytes: &[u8]) -> Option<&'static str> {
    let is_pointer = bytes.starts_with(b"version https://git-lfs");
    is_pointer
        .then_some("this is a pointer of git-lfs, not the file; `git lfs pull` in its folder gets the file")
}
