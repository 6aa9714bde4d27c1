//! Content that is checked while it passes: its last piece is handed on only when all of it is what it should be.

use std::io::Write as _;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use ident::Sha256Writer;

use crate::ImageError;
use crate::registry::ByteStream;

/// Lets content pass that has this digest and this many bytes. Anything else ends with an error before its end, so that whoever
/// receives it gets less than was announced.
pub(super) fn verified(place: String, digest: String, size: u64, content: ByteStream) -> ByteStream {
    let state = State { place, digest, size, content, hash: Some(Sha256Writer::new(std::io::sink())) };
    Box::pin(stream::try_unfold(state, State::next))
}

struct State {
    place: String,
    digest: String,
    size: u64,
    content: ByteStream,
    /// Nothing once everything was handed on.
    hash: Option<Sha256Writer<std::io::Sink>>,
}

impl State {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, ImageError> {
        let Some(mut hash) = self.hash.take() else { return Ok(None) };
        let mut piece = Bytes::new();
        let mut ended = self.size == 0;
        while piece.is_empty() && !ended {
            match self.content.next().await.transpose()? {
                Some(next) => piece = next,
                None => ended = true,
            }
        }
        hash.write_all(&piece).expect("a sink takes everything");
        let written = hash.written();
        if !ended && written < self.size {
            self.hash = Some(hash);
            return Ok(Some((piece, self)));
        }
        let found = hash.finish().0.prefixed();
        if written != self.size {
            // A connection that was cut looks like this, so another try may help.
            return Err(ImageError::Cut {
                place: self.place,
                digest: self.digest,
                expected: self.size,
                found: written,
            });
        }
        if found != self.digest {
            return Err(ImageError::Digest { place: self.place, expected: self.digest, found });
        }
        Ok(if ended { None } else { Some((piece, self)) })
    }
}

#[cfg(test)]
mod tests {
    use ident::Digest;
    use proptest::prelude::*;

    use super::*;

    /// What passes, and how it ends.
    fn passed(content: &[Vec<u8>], digest: &str, size: u64) -> (Vec<u8>, Result<(), ImageError>) {
        let pieces: Vec<_> = content.iter().map(|piece| Ok(Bytes::from(piece.clone()))).collect();
        let mut stream =
            verified("place".into(), digest.into(), size, Box::pin(futures_util::stream::iter(pieces)));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut all = Vec::new();
            while let Some(piece) = stream.next().await {
                match piece {
                    Ok(piece) => all.extend_from_slice(&piece),
                    Err(error) => return (all, Err(error)),
                }
            }
            (all, Ok(()))
        })
    }

    proptest! {
        #[test]
        fn right_content_passes_whole_and_other_content_never_does(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..6),
            other in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let whole = pieces.concat();
            let (digest, size) = (Digest::of(&whole).prefixed(), whole.len() as u64);
            let (all, end) = passed(&pieces, &digest, size);
            prop_assert!(end.is_ok());
            prop_assert_eq!(&all, &whole);
            // Of empty content nothing has to be read.
            if other != whole && !whole.is_empty() {
                let split: Vec<Vec<u8>> = other.chunks(7).map(<[u8]>::to_vec).collect();
                let (all, end) = passed(&split, &digest, size);
                prop_assert!(end.is_err());
                prop_assert!(all.len() < whole.len());
            }
        }
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        let digest = Digest::of("abc").prefixed();
        let cut = passed(&[b"ab".to_vec()], &digest, 3).1.unwrap_err();
        assert!(matches!(cut, ImageError::Cut { found: 2, .. }), "{cut}");
        let other = passed(&[b"abd".to_vec()], &digest, 3).1.unwrap_err();
        assert!(matches!(other, ImageError::Digest { .. }), "{other}");
    }
}
