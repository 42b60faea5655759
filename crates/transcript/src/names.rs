//! Enums whose variants have a name in output.
//!
//! The name stands beside its variant, and is the same wherever it is printed: [`named`] gives the
//! enum a function `name`, and lets it serialise as that name.

/// Declares an enum, with the name of each variant in output.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $type:ident {
        $($(#[$doc:meta])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$meta])*
        pub enum $type { $($(#[$doc])* $variant,)+ }

        impl $type {
            /// The name in output.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)+ }
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}

pub(crate) use named;
