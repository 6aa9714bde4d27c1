//! Identities of stacks: one digest over the layers, one over layers and configuration.

use crate::ImageConfig;
use crate::digest::Fields;
use crate::store::LayerKey;

/// Identity of a stack of layers, grown layer by layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain(String);

impl Chain {
    /// No layers.
    pub(crate) fn empty() -> Self {
        Self::of("seatrial.chain/1 empty")
    }

    /// A stack whose identity is already known by a digest.
    pub(crate) fn of(digest: &str) -> Self {
        let mut fields = Fields::new("seatrial.chain/1 base");
        fields.add(digest.as_bytes());
        Self(fields.finish())
    }

    /// The stack with one more layer on top.
    #[must_use]
    pub(crate) fn push(&self, key: &LayerKey) -> Self {
        let mut fields = Fields::new("seatrial.chain/1 layer");
        fields.add(self.0.as_bytes()).add(key.as_str().as_bytes());
        Self(fields.finish())
    }

    /// The digits.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Identity of an image: these layers started in this way. `sha256:<hex>`.
    pub(crate) fn image_digest(&self, config: &ImageConfig) -> String {
        let mut fields = Fields::new("seatrial.image/1");
        fields.add(self.0.as_bytes());
        let mut map = |name: &str, map: &std::collections::BTreeMap<String, String>| {
            fields.add(name.as_bytes()).number(map.len() as u64);
            for (key, value) in map {
                fields.add(key.as_bytes()).add(value.as_bytes());
            }
        };
        map("env", &config.env);
        map("labels", &config.labels);
        for list in [&config.entrypoint, &config.cmd, &config.shell] {
            fields.number(list.len() as u64);
            for word in list {
                fields.add(word.as_bytes());
            }
        }
        for option in [&config.workdir, &config.user] {
            fields.number(u64::from(option.is_some()));
            fields.add(option.as_deref().unwrap_or_default().as_bytes());
        }
        format!("sha256:{}", fields.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::hex_of;

    #[test]
    fn every_part_counts() {
        let key = |text: &str| LayerKey::parse(&hex_of(text.as_bytes())).unwrap();
        let chain = Chain::empty().push(&key("a")).push(&key("b"));
        assert_ne!(chain, Chain::empty().push(&key("b")).push(&key("a")));
        let plain = chain.image_digest(&ImageConfig::default());
        let config = ImageConfig { user: Some(String::new()), ..ImageConfig::default() };
        assert_ne!(plain, chain.image_digest(&config));
        let config = ImageConfig { cmd: vec!["a".to_owned()], ..ImageConfig::default() };
        let other = ImageConfig { entrypoint: vec!["a".to_owned()], ..ImageConfig::default() };
        assert_ne!(chain.image_digest(&config), chain.image_digest(&other));
    }
}
