//! Where settings come from: the embedded defaults, then a file, then the environment, then flags. The later one wins,
//! and every value knows its source, for `lapse config` and for errors.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use figment::{
    Figment, Metadata, Profile, Provider,
    value::{Dict, Map},
};
use serde::Serialize;
use serde_json::Value;

use super::{Config, DEFAULTS, accept::accept};

/// What stands before the name of every environment variable that is a setting.
const ENV_PREFIX: &str = "LAPSE_";
/// The largest configuration file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// What is given beside the defaults.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub file: Option<PathBuf>,
    /// The environment, as name and value. Names without `__` in them are no settings.
    pub env: Vec<(String, String)>,
    pub flags: Vec<Flag>,
}

/// A flag that was given, and the setting that it is.
#[derive(Clone, Debug)]
pub struct Flag {
    /// As it is written: `--listen`.
    pub flag: &'static str,
    pub setting: &'static str,
    pub value: String,
}

/// The configuration in force, and where each of its values comes from.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    pub settings: Vec<Setting>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// `section.name`
    pub setting: String,
    pub value: Value,
    /// `default`, `file PATH`, `environment NAME` or `flag --NAME`.
    pub source: String,
    /// What it takes.
    pub accepts: String,
}

/// Everything that is wrong, at once.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Error(pub Vec<Fault>);

#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("the configuration file {} cannot be read: {why}", path.display())]
    Unreadable { path: PathBuf, why: std::io::Error },
    #[error("the configuration file {} is not TOML: {why}", path.display())]
    NotToml { path: PathBuf, why: String },
    #[error("there is no setting {setting} ({fault_source}); {hint}")]
    Unknown { setting: String, fault_source: String, hint: String },
    #[error("{setting} = {given} is not accepted ({fault_source}); it takes {accepts}")]
    NotAccepted { setting: String, given: String, fault_source: String, accepts: String },
}

impl Loaded {
    pub fn from(sources: &Sources) -> Result<Self, Error> {
        let defaults = flatten(&toml_value(DEFAULTS).unwrap_or_else(|e| unreachable!("the embedded defaults: {e}")));
        let mut faults = Vec::new();
        let mut figment = Figment::from(Layer::new("default", defaults.clone()));
        for layer in layers(sources, &mut faults) {
            let mut accepted = BTreeMap::new();
            for (setting, given) in layer.values {
                match check(&defaults, &setting, given, &layer.source) {
                    Ok(value) => drop(accepted.insert(setting, value)),
                    Err(fault) => faults.push(fault),
                }
            }
            figment = figment.merge(Layer::new(&layer.source, accepted));
        }
        if !faults.is_empty() {
            return Err(Error(faults));
        }
        let config = figment.extract::<Config>().unwrap_or_else(|e| unreachable!("each value was checked: {e}"));
        let settings = defaults
            .keys()
            .map(|setting| {
                let accept = accept(setting, &defaults[setting]);
                Setting {
                    setting: setting.clone(),
                    value: accept.shown(figment.extract_inner(setting).unwrap_or_default()),
                    source: figment.find_metadata(setting).map_or_else(|| "default".into(), |m| m.name.to_string()),
                    accepts: accept.to_string(),
                }
            })
            .collect();
        Ok(Self { config, settings })
    }
}

/// One source's values, by setting. Text from the environment and from flags is typed by [`check`].
struct Given {
    source: String,
    values: BTreeMap<String, Value>,
}

fn layers(sources: &Sources, faults: &mut Vec<Fault>) -> Vec<Given> {
    let mut layers = Vec::new();
    if let Some(path) = &sources.file {
        match file(path) {
            Ok(values) => layers.push(Given { source: format!("file {}", path.display()), values }),
            Err(fault) => faults.push(fault),
        }
    }
    for (name, value) in &sources.env {
        let Some(setting) = name.strip_prefix(ENV_PREFIX).filter(|rest| rest.contains("__")) else { continue };
        let setting = setting.to_ascii_lowercase().replace("__", ".");
        let values = BTreeMap::from([(setting, Value::String(value.clone()))]);
        layers.push(Given { source: format!("environment {name}"), values });
    }
    for Flag { flag, setting, value } in &sources.flags {
        let values = BTreeMap::from([((*setting).to_owned(), Value::String(value.clone()))]);
        layers.push(Given { source: format!("flag {flag}"), values });
    }
    layers
}

fn file(path: &Path) -> Result<BTreeMap<String, Value>, Fault> {
    let unreadable = |why| Fault::Unreadable { path: path.to_owned(), why };
    if std::fs::metadata(path).map_err(unreadable)?.len() > MAX_FILE_BYTES {
        return Err(unreadable(std::io::Error::other(format!("it is over {MAX_FILE_BYTES} bytes"))));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let value = toml_value(&text).map_err(|why| Fault::NotToml { path: path.to_owned(), why: why.to_string() })?;
    Ok(flatten(&value))
}

fn toml_value(text: &str) -> Result<Value, toml::de::Error> {
    toml::from_str(text)
}

/// `{server: {listen: x}}` as `server.listen: x`. A section that is no table stands for itself, to be refused.
fn flatten(value: &Value) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    for (section, settings) in value.as_object().into_iter().flatten() {
        match settings.as_object() {
            Some(settings) => flat.extend(settings.iter().map(|(name, v)| (format!("{section}.{name}"), v.clone()))),
            None => drop(flat.insert(section.clone(), settings.clone())),
        }
    }
    flat
}

fn check(defaults: &BTreeMap<String, Value>, setting: &str, given: Value, source: &str) -> Result<Value, Fault> {
    let Some(default) = defaults.get(setting) else {
        let hint = match nearest(setting, defaults.keys()) {
            Some(name) => format!("did you mean {name}? `lapse config` lists them all"),
            None => "`lapse config` lists them all".to_owned(),
        };
        return Err(Fault::Unknown { setting: setting.to_owned(), fault_source: source.to_owned(), hint });
    };
    let accept = accept(setting, default);
    accept.check(&given).ok_or_else(|| Fault::NotAccepted {
        setting: setting.to_owned(),
        given: accept.shown(given.clone()).to_string(),
        fault_source: source.to_owned(),
        accepts: accept.to_string(),
    })
}

/// The setting whose name differs in the fewest letters, if few differ.
fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a String>) -> Option<&'a str> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    known
        .map(|name| (distance(given, name).min(distance(&last(given), &last(name)) + 1), name.as_str()))
        .filter(|(distance, _)| *distance <= 3)
        .min()
        .map(|(_, name)| name)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let next = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}

/// A layer as figment takes it: what it is called is what `lapse config` shows.
struct Layer {
    source: String,
    dict: Dict,
}

impl Layer {
    fn new(source: &str, values: BTreeMap<String, Value>) -> Self {
        let mut nested = serde_json::Map::new();
        for (setting, value) in values {
            let (section, name) = setting.split_once('.').unwrap_or((&setting, ""));
            let section = nested.entry(section).or_insert_with(|| Value::Object(serde_json::Map::new()));
            if let Some(section) = section.as_object_mut() {
                section.insert(name.to_owned(), value);
            }
        }
        let dict = figment::value::Value::serialize(nested).ok().and_then(figment::value::Value::into_dict);
        Self { source: source.to_owned(), dict: dict.unwrap_or_default() }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.source.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.dict.clone())]))
    }
}
