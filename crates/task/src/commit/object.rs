//! Git objects of a tree.

use std::collections::BTreeMap;

use crate::git::{Kind, ObjectId};
use crate::tree::Tree;

/// The objects of one repository by their name, each once.
#[derive(Default)]
pub(super) struct Objects(pub(super) BTreeMap<ObjectId, (Kind, Vec<u8>)>);

impl Objects {
    /// Adds an object and returns its name.
    pub(super) fn add(&mut self, kind: Kind, content: Vec<u8>) -> ObjectId {
        let id = ObjectId::of(kind, &content);
        self.0.entry(id).or_insert((kind, content));
        id
    }

    /// Adds the blobs and trees of a whole file tree and returns the name of the root tree and of every blob in the
    /// tree's order.
    pub(super) fn add_tree(&mut self, tree: &Tree) -> (ObjectId, Vec<ObjectId>) {
        let mut root = Folder::default();
        let mut blobs = Vec::with_capacity(tree.len());
        for (path, entry) in tree.iter() {
            let id = self.add(Kind::Blob, entry.bytes().to_vec());
            blobs.push(id);
            let mut folder = &mut root;
            let mut parts = path.split(|&b| b == b'/').peekable();
            while let Some(name) = parts.next() {
                if parts.peek().is_none() {
                    folder.files.insert(name.to_vec(), (entry.git_mode(), id));
                    break;
                }
                folder = folder.folders.entry(name.to_vec()).or_default();
            }
        }
        (root.store(self), blobs)
    }
}

#[derive(Default)]
struct Folder {
    files: BTreeMap<Vec<u8>, (u32, ObjectId)>,
    folders: BTreeMap<Vec<u8>, Self>,
}

impl Folder {
    fn store(&self, objects: &mut Objects) -> ObjectId {
        // Git sorts folders as if their names ended in a slash.
        let mut entries: Vec<(Vec<u8>, u32, &[u8], ObjectId)> = Vec::new();
        for (name, (mode, id)) in &self.files {
            entries.push((name.clone(), *mode, name, *id));
        }
        for (name, folder) in &self.folders {
            entries.push(([name.as_slice(), b"/"].concat(), 0o40000, name, folder.store(objects)));
        }
        entries.sort();
        let mut content = Vec::new();
        for (_, mode, name, id) in entries {
            content.extend(format!("{mode:o} ").into_bytes());
            content.extend_from_slice(name);
            content.push(0);
            content.extend(id.0);
        }
        objects.add(Kind::Tree, content)
    }
}
