//! The files of new projects. Sources are those of `examples/`, so what a project begins with is
//! what the tests of this repository run.

use std::path::Path;

use super::{Language, Template};

const REPOSITORY: &str = "https://github.com/wasmkeep/wasmkeep";
const IGNORED: &str = "/target\n/node_modules\n/dist\n/data\n/.wasmkeep\n";

/// What the text of a project depends on.
pub struct Names {
    /// Of the project: `my-app`.
    project: String,
    /// As rustc writes it: `my_app`.
    artifact: String,
    /// The value of the dependency on the SDK.
    sdk: String,
    /// That on the test kit.
    testkit: String,
    /// What npm is to take as the SDK, in JSON.
    npm_sdk: String,
}

impl Names {
    pub fn new(project: &str, checkout: Option<&Path>) -> Self {
        let dependency = |folder: &str| match checkout {
            Some(checkout) => format!("{{ path = {:?} }}", checkout.join(folder)),
            None => format!("{{ git = {REPOSITORY:?} }}"),
        };
        Self {
            project: project.to_owned(),
            artifact: project.replace('-', "_"),
            sdk: dependency("sdk-rust"),
            testkit: dependency("testkit"),
            npm_sdk: match checkout {
                Some(checkout) => format!("\"file:{}\"", checkout.join("sdk-ts").display()),
                None => format!("\"^{}\"", env!("CARGO_PKG_VERSION")),
            },
        }
    }
}

/// Paths in the project's folder, and what they hold.
pub fn files(language: Language, template: Template, names: &Names) -> Vec<(&'static str, String)> {
    let mut files = vec![(".gitignore", IGNORED.to_owned())];
    files.extend(match (language, template) {
        (Language::Rust, Template::Counter) => counter(names),
        (Language::Rust, Template::Chat) => chat(names),
        (Language::Rust, Template::Front) => front(names),
        (Language::Ts, template) => typescript(template, names),
    });
    files
}

/// A project in TypeScript: components in `dist`, a test for Node.js's own runner.
fn typescript(template: Template, names: &Names) -> Vec<(&'static str, String)> {
    const COUNTER: &str = include_str!("../../../examples/counter-ts/counter.ts");
    const ROOM: &str = include_str!("../../../examples/chat-ts/room.ts");
    let (class, first, mut files) = match template {
        Template::Counter => (
            "counter",
            "curl http://127.0.0.1:8080/actor/counter/alice",
            vec![
                ("src/counter.ts", COUNTER.to_owned()),
                ("test/counter.test.js", include_str!("ts/counter.test.js").to_owned()),
            ],
        ),
        Template::Front => (
            "counter",
            "open http://127.0.0.1:8080/",
            vec![
                ("src/counter.ts", COUNTER.to_owned()),
                ("src/front.ts", include_str!("ts/front.ts").to_owned()),
                ("test/front.test.js", include_str!("ts/front.test.js").to_owned()),
            ],
        ),
        Template::Chat => (
            "room",
            "open http://127.0.0.1:8080/",
            vec![
                ("src/room.ts", ROOM.to_owned()),
                ("src/front.ts", include_str!("ts/chat_front.ts").to_owned()),
                ("src/page.ts", chat_page()),
                ("test/chat.test.js", include_str!("ts/chat.test.js").to_owned()),
            ],
        ),
    };
    let mut build = format!("wasmkeep-ts build src/{class}.ts -o dist/{class}.wasm");
    let mut settings = format!("{BUILD_TS}\n[actors]\n{class} = \"dist/{class}.wasm\"\n");
    if template != Template::Counter {
        build += " && wasmkeep-ts build --world front src/front.ts -o dist/front.wasm";
        settings += "\n[front]\ncomponent = \"dist/front.wasm\"\n";
    }
    let Names { project, npm_sdk, .. } = names;
    let package = format!(
        r#"{{
  "name": "{project}",
  "private": true,
  "type": "module",
  "scripts": {{
    "build": "{build}",
    "test": "node --test test/"
  }},
  "devDependencies": {{
    "@wasmkeep/sdk": {npm_sdk},
    "typescript": ">=5.7"
  }}
}}
"#
    );
    files.extend([
        ("package.json", package),
        ("tsconfig.json", include_str!("ts/tsconfig.json").to_owned()),
        ("wasmkeep.toml", settings),
        (
            "README.md",
            format!(
                "# {project}\n\n```sh\nnpm install        # once\nwasmkeep dev       # builds, \
                 serves, and serves each change\n{first}\nnpm test\n```\n\nTo serve what was \
                 built: `wasmkeep serve`.\n"
            ),
        ),
    ]);
    files
}

const BUILD_TS: &str = "\
# What `wasmkeep dev` builds and serves, and what `wasmkeep serve` serves as it is.

[build]
command = \"npm run --silent build\"
";

/// The chat's page as a module: a component has no files.
fn chat_page() -> String {
    let files = [
        ("PAGE", include_str!("../../../examples/chat/front/page/index.html")),
        ("CSS", include_str!("../../../examples/chat/front/page/chat.css")),
        ("JS", include_str!("../../../examples/chat/front/page/chat.js")),
    ];
    let constants = files.map(|(name, text)| {
        let quoted = text.replace('\\', "\\\\").replace('`', "\\`").replace("${", "\\${");
        format!("export const {name} = `{quoted}`;\n")
    });
    constants.join("\n")
}

fn counter(names: &Names) -> Vec<(&'static str, String)> {
    let Names { project, artifact, .. } = names;
    let settings =
        format!("{BUILD}\n[actors]\ncounter = \"target/wasm32-wasip2/release/{artifact}.wasm\"\n");
    vec![
        ("Cargo.toml", package(project, names) + PROFILE),
        ("wasmkeep.toml", settings),
        ("src/lib.rs", include_str!("../../../examples/counter/src/lib.rs").to_owned()),
        ("tests/counter.rs", include_str!("counter_test.rs.txt").to_owned()),
        ("README.md", readme(project, "curl http://127.0.0.1:8080/actor/counter/alice")),
    ]
}

fn chat(names: &Names) -> Vec<(&'static str, String)> {
    let mut files = workspace(names, "room");
    files.extend([
        ("front/src/lib.rs", include_str!("../../../examples/chat/front/src/lib.rs").to_owned()),
        (
            "front/page/index.html",
            include_str!("../../../examples/chat/front/page/index.html").to_owned(),
        ),
        (
            "front/page/chat.css",
            include_str!("../../../examples/chat/front/page/chat.css").to_owned(),
        ),
        (
            "front/page/chat.js",
            include_str!("../../../examples/chat/front/page/chat.js").to_owned(),
        ),
        ("class/src/lib.rs", include_str!("../../../examples/chat/room/src/lib.rs").to_owned()),
        ("class/tests/room.rs", include_str!("chat_test.rs.txt").to_owned()),
    ]);
    files
}

fn front(names: &Names) -> Vec<(&'static str, String)> {
    let mut files = workspace(names, "counter");
    files.extend([
        ("front/src/lib.rs", include_str!("front.rs.txt").to_owned()),
        ("front/tests/page.rs", include_str!("front_test.rs.txt").to_owned()),
        ("class/src/lib.rs", include_str!("../../../examples/counter/src/lib.rs").to_owned()),
    ]);
    files
}

/// A front, and the class behind it.
fn workspace(names: &Names, class: &str) -> Vec<(&'static str, String)> {
    let Names { project, artifact, .. } = names;
    let built = "target/wasm32-wasip2/release";
    let settings = format!(
        "{BUILD}\n[front]\ncomponent = \"{built}/{artifact}_front.wasm\"\n\n\
         [actors]\n{class} = \"{built}/{artifact}_{class}.wasm\"\n"
    );
    let manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"front\", \"class\"]\n".to_owned();
    vec![
        ("Cargo.toml", manifest + PROFILE),
        ("wasmkeep.toml", settings),
        ("front/Cargo.toml", package(&format!("{project}-front"), names)),
        ("class/Cargo.toml", package(&format!("{project}-{class}"), names)),
        ("README.md", readme(project, "open http://127.0.0.1:8080/")),
    ]
}

const BUILD: &str = "\
# What `wasmkeep dev` builds and serves, and what `wasmkeep serve` serves as it is.

[build]
command = \"cargo build --release --target wasm32-wasip2\"
";

const PROFILE: &str = "
[profile.release]
opt-level = \"s\"
lto = \"thin\"
strip = \"debuginfo\"
panic = \"abort\"
";

fn package(name: &str, names: &Names) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [lib]\ncrate-type = [\"cdylib\"]\n\n\
         [dependencies]\nserde = {{ version = \"1\", features = [\"derive\"] }}\nwasmkeep-sdk = {}\n\n\
         [dev-dependencies]\nserde_json = \"1\"\nwasmkeep-testkit = {}\n",
        names.sdk, names.testkit
    )
}

fn readme(project: &str, first: &str) -> String {
    format!(
        "# {project}\n\n```sh\nrustup target add wasm32-wasip2    # once\n\
         wasmkeep dev                       # builds, serves, and serves each change\n{first}\n\
         cargo test\n```\n\nTo serve what was built: `wasmkeep serve`.\n"
    )
}
