//! Words of a column as an enumeration.

/// A set of words: an enumeration whose members have names in recordings.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$said:meta])* $member:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$said])* $member,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$member,)*];

            /// The word in recordings.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$member => $word,)*
                }
            }

            /// The member that a recording calls so.
            pub fn of_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|member| member.word() == word)
            }
        }
    };
}

pub(crate) use words;
