//! What several rules need to know of a task, worked out once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use image::dockerfile::{Dockerfile, ParseError};

use crate::gold::Gold;
use crate::instance::{self, Instance};
use crate::lines::text;
use crate::shell::{Script, read_script};
use crate::view::{Archive, TaskView};

/// The Dockerfile of the agent's image.
pub(crate) const DOCKERFILE: &[u8] = b"environment/Dockerfile";

/// A view and what follows from it.
pub(crate) struct Facts<'a> {
    /// The task.
    pub(crate) view: &'a TaskView,
    /// The shell scripts below `tests/` and `solution/`, of the task and of its steps, by their paths.
    pub(crate) scripts: BTreeMap<&'a [u8], Arc<Script<'a>>>,
    /// `tests/config.json`, where it is an instance; why it cannot be read, where it is broken.
    pub(crate) instance: Result<Option<Instance<'a>>, String>,
    /// The reference solution.
    pub(crate) gold: Gold,
    /// The agent's Dockerfile, where there is one.
    pub(crate) dockerfile: Option<Result<Dockerfile, ParseError>>,
}

impl<'a> Facts<'a> {
    pub(crate) fn of(view: &'a TaskView) -> Self {
        let content = view.file(instance::PATH).and_then(|file| file.content.as_deref());
        let instance = content.map_or(Ok(None), Instance::read);
        let scripts = scripts(view);
        let gold = Gold::of(view, &scripts, instance.as_ref().ok().and_then(Option::as_ref));
        let dockerfile = view.text(DOCKERFILE).map(|text| image::dockerfile::parse(&text));
        Self { view, scripts, instance, gold, dockerfile }
    }

    /// The instance, where there is a readable one.
    pub(crate) fn instance(&self) -> Option<&Instance<'a>> {
        self.instance.as_ref().ok().and_then(Option::as_ref)
    }

    /// The archives in the build context with their paths.
    pub(crate) fn context_archives(&self) -> impl Iterator<Item = (&[u8], &Archive)> {
        self.view.files_below(b"environment").filter_map(|(path, file)| Some((path, file.archive.as_ref()?)))
    }
}

/// The test script of this program's own tasks, of which one after the other has the same.
static VENDORED: LazyLock<Arc<Script<'static>>> =
    LazyLock::new(|| Arc::new(read_script(grade::vendored::TEST_SH)));

/// Takes apart the shell scripts that a trial may run.
pub(crate) fn scripts(view: &TaskView) -> BTreeMap<&[u8], Arc<Script<'_>>> {
    let mut scripts = BTreeMap::new();
    for root in view.roots() {
        for folder in [&b"tests"[..], b"solution"] {
            let folder = [root.as_slice(), folder].concat();
            for (path, file) in view.files_below(&folder).filter(|(path, _)| path.ends_with(b".sh")) {
                if let Some(content) = &file.content {
                    let script = match text(content) {
                        Cow::Borrowed(grade::vendored::TEST_SH) => Arc::clone(&VENDORED),
                        Cow::Borrowed(text) => Arc::new(read_script(text)),
                        Cow::Owned(text) => Arc::new(read_script(&text).into_owned()),
                    };
                    scripts.insert(path, script);
                }
            }
        }
    }
    scripts
}
