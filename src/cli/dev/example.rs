//! The example that `lapse dev` sets up: where its component is found, and the lines that try it.

use std::path::{Path, PathBuf};

use url::Url;

use crate::demo_shop::{CHECKED, COMPONENT, small_order};

use super::super::{Result, error::Error, output::now};

/// The order-timeout component's file.
pub struct Component {
    file: PathBuf,
}

/// Looks in the folder that was given, or else where an installed binary and one built here have it.
pub fn component(folder: Option<&Path>) -> Result<Component> {
    let folders = match folder {
        Some(folder) => vec![folder.to_owned()],
        None => likely_folders(),
    };
    if let Some(file) = folders.iter().map(|f| f.join(COMPONENT)).find(|f| f.is_file()) {
        return Ok(Component { file });
    }
    let looked: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
    Err(Error::hinted(
        format!("the example needs {COMPONENT}, which is not in {}", looked.join(" or ")),
        "build it with `make plugins`, say where it is with --plugins DIR, or start without it: --no-demo",
    ))
}

fn likely_folders() -> Vec<PathBuf> {
    let binary = std::env::current_exe().ok().and_then(|exe| exe.canonicalize().ok());
    let beside = binary.as_deref().and_then(Path::parent).map(Path::to_owned);
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Some(beside) = beside {
        // Installed: bin/lapse with bin/plugins, or with share/lapse/plugins.
        folders.push(beside.join("plugins"));
        folders.extend(beside.parent().map(|prefix| prefix.join("share/lapse/plugins")));
        // Built here: target/release/lapse in the repository that has plugins/dist.
        folders.extend(beside.ancestors().nth(2).map(|root| root.join("plugins/dist")));
    }
    folders.push(PathBuf::from("plugins/dist"));
    folders
}

impl Component {
    pub fn read(&self) -> Result<Vec<u8>> {
        let file = self.file.display();
        std::fs::read(&self.file).map_err(|e| Error::Other(anyhow::anyhow!("{file} cannot be read: {e}")))
    }
}

/// `host:port` of a shop's address, as a grant names it.
pub fn authority(shop_url: &str) -> Result<String> {
    let url = Url::parse(shop_url).ok().filter(|u| u.scheme() == "http");
    match url.as_ref().and_then(|u| Some((u.host_str()?, u.port_or_known_default()?))) {
        Some((host, port)) => Ok(format!("{host}:{port}")),
        None => Err(Error::usage(format!("--shop-url {shop_url:?} is not an address like http://127.0.0.1:9000"))),
    }
}

/// How this program is called in the lines to paste: as it was called itself, with the server that it is not told of
/// otherwise.
pub fn program(server: Option<(&str, &str)>) -> String {
    let called = std::env::args().next().unwrap_or_else(|| "lapse".into());
    let called = if called.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+".contains(&b)) {
        called
    } else {
        format!("'{}'", called.replace('\'', r"'\''"))
    };
    match server {
        None => called,
        Some((url, token)) => format!("LAPSE_SERVER_URL={url} LAPSE_TOKEN={token} {called}"),
    }
}

/// Creates an order, registers its timer, and shows what became of both.
pub fn lines(lapse: &str, shop_url: &str) -> [String; 3] {
    // Another key each time: a key stands for one timer for good.
    let order = format!("order-{}", now().as_millis() / 1000 % 1_000_000);
    let payload = small_order(&order);
    let items = serde_json::json!({ "items": payload["items"] });
    [
        format!("curl -sS -X PUT {shop_url}/orders/{order} -d '{items}'"),
        format!("{lapse} timer register --type {CHECKED} --key {order} --delay 10s --payload '{payload}'"),
        format!(
            "{lapse} timer get --type {CHECKED} --key {order} --wait 30s && sleep 1 && curl -sS {shop_url}/orders/{order} && curl -sS {shop_url}/stock"
        ),
    ]
}
