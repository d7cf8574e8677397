//! Prints `docs/settings.md`: `cargo run -p pagelab-vocab --example settings_doc > docs/settings.md`.

fn main() {
    print!("{}", pagelab_vocab::settings::markdown());
}
