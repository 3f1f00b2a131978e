//! What an upload must be before it is compiled, and what its description must be before it is taken.

use wasmparser::{ComponentExternalKind, ComponentInstance, ComponentTypeRef, Encoding, Instance, Parser, Payload};

use super::{
    Refusal,
    abi::v1::{EXPORTS, IMPORTS},
    limits::{COMPONENTS, FUNCTION_BYTES, FUNCTIONS, INSTANCES, Limits, MODULES, NESTING, TABLE_ELEMENTS},
    wasi,
};
use crate::domain::{
    backoff::RetryPolicy,
    plugin::{ABI, Manifest},
};

/// The longest version of a manifest.
const VERSION_BYTES: usize = 64;

fn invalid<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Invalid(why.into()))
}

fn over<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::OverLimit(why.into()))
}

pub fn check_size(bytes: &[u8], limits: &Limits) -> Result<(), Refusal> {
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if size > limits.component_bytes {
        return over(format!("the component has {size} bytes, and may have {}", limits.component_bytes));
    }
    Ok(())
}

/// Reads the component through without compiling it: that it is one, what it imports, and that compiling it cannot eat
/// the machine. (The compiler validates it.) Gives the interfaces that it imports.
pub fn scan(bytes: &[u8], limits: &Limits) -> Result<Vec<String>, Refusal> {
    let mut scan = Scan { memory_bytes: limits.memory_bytes, ..Scan::default() };
    for payload in Parser::new(0).parse_all(bytes) {
        match payload {
            Ok(payload) => scan.take(payload)?,
            Err(e) => return invalid(format!("this is not a whole WebAssembly component: {}", e.message())),
        }
    }
    scan.finish()
}

#[derive(Default)]
struct Scan {
    /// What a call may have.
    memory_bytes: usize,
    /// Where we are: components and modules, outermost first.
    open: Vec<Level>,
    functions: usize,
    modules: usize,
    components: usize,
    /// The most core instances that instantiating any component that is defined so far can make.
    worst_instances: usize,
    total_instances: usize,
    imports: Vec<String>,
    exports: Vec<String>,
}

#[derive(Default)]
struct Level {
    is_component: bool,
    /// Core instances that it makes, those of components that it instantiates included.
    instances: usize,
}

impl Scan {
    fn take(&mut self, payload: Payload<'_>) -> Result<(), Refusal> {
        let broken = |e: wasmparser::BinaryReaderError| {
            Refusal::Invalid(format!("this is not a whole WebAssembly component: {}", e.message()))
        };
        match payload {
            Payload::Version { encoding, .. } => self.enter(encoding)?,
            Payload::End(_) => self.leave(),
            Payload::FunctionSection(section) => {
                self.functions = self.functions.saturating_add(count(section.count()));
                if self.functions > FUNCTIONS {
                    return over(format!("the component has more than {FUNCTIONS} functions"));
                }
            }
            Payload::CodeSectionEntry(body) if body.range().len() > FUNCTION_BYTES => {
                return over(format!("one of the component's functions has more than {FUNCTION_BYTES} bytes"));
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    let memory = memory.map_err(broken)?;
                    let page = 1u64 << memory.page_size_log2.unwrap_or(16).min(16);
                    let bytes = memory.initial.saturating_mul(page);
                    if usize::try_from(bytes).map_or(true, |bytes| bytes > self.memory_bytes) {
                        return over(format!(
                            "the component starts with {bytes} bytes of memory, and may have {}",
                            self.memory_bytes
                        ));
                    }
                }
            }
            Payload::TableSection(section) => {
                for table in section {
                    let elements = table.map_err(broken)?.ty.initial;
                    if usize::try_from(elements).map_or(true, |n| n > TABLE_ELEMENTS) {
                        return over(format!(
                            "the component has a table of {elements} elements, and may have {TABLE_ELEMENTS}"
                        ));
                    }
                }
            }
            Payload::InstanceSection(section) => {
                for instance in section {
                    if let Instance::Instantiate { .. } = instance.map_err(broken)? {
                        self.add_instances(1)?;
                    }
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section {
                    // Which component it is cannot be said without resolving aliases; none has more than the worst.
                    if let ComponentInstance::Instantiate { .. } = instance.map_err(broken)? {
                        self.add_instances(self.worst_instances)?;
                    }
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    let import = import.map_err(broken)?;
                    if let ComponentTypeRef::Component(_) | ComponentTypeRef::Module(_) = import.ty {
                        return invalid("the component imports a component or a module");
                    }
                    // The world names types of ours by themselves too; the linker checks that they are.
                    if self.open.len() == 1 && !matches!(import.ty, ComponentTypeRef::Type(_)) {
                        self.imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) if self.open.len() == 1 => {
                for export in section {
                    let export = export.map_err(broken)?;
                    if export.kind == ComponentExternalKind::Func {
                        self.exports.push(export.name.name.to_owned());
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn enter(&mut self, encoding: Encoding) -> Result<(), Refusal> {
        let is_component = encoding == Encoding::Component;
        if self.open.is_empty() && !is_component {
            return invalid("this is a core WebAssembly module and not a component; `lapse plugin build` makes one");
        }
        let total = if is_component { &mut self.components } else { &mut self.modules };
        *total += 1;
        if self.components > COMPONENTS || self.modules > MODULES {
            return over(format!(
                "there are more than {COMPONENTS} components or {MODULES} modules within the component"
            ));
        }
        if self.open.len() >= NESTING {
            return over(format!("components are nested more than {NESTING} deep"));
        }
        self.open.push(Level { is_component, instances: 0 });
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(level) = self.open.pop()
            && level.is_component
        {
            self.worst_instances = self.worst_instances.max(level.instances);
        }
    }

    /// Instances that multiply by components that instantiate each other would be unrolled by the compiler.
    fn add_instances(&mut self, count: usize) -> Result<(), Refusal> {
        self.total_instances += 1;
        if let Some(level) = self.open.last_mut() {
            level.instances = level.instances.saturating_add(count);
            if level.instances > INSTANCES || self.total_instances > INSTANCES * 4 {
                return over(format!("the component makes more than {INSTANCES} instances of modules"));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<String>, Refusal> {
        let known = |name: &str| IMPORTS.contains(&name) || wasi::is_offered(name);
        let foreign: Vec<&str> = self.imports.iter().map(String::as_str).filter(|name| !known(name)).collect();
        if foreign.iter().any(|name| name.starts_with("wasi:")) {
            let named = foreign.join(", ");
            return invalid(format!(
                "the component imports {named}; of WASI, plugins get {}, and no more: requests go through \
                 lapse:plugin/http",
                wasi::OFFERED
            ));
        }
        if !foreign.is_empty() {
            return invalid(format!(
                "the component imports {}, which is none of {}",
                foreign.join(", "),
                IMPORTS.join(", ")
            ));
        }
        let missing: Vec<&str> = EXPORTS.into_iter().filter(|name| !self.exports.iter().any(|e| e == name)).collect();
        if !missing.is_empty() {
            return invalid(format!(
                "the component is not of the world {ABI}: it does not export {}",
                missing.join(", ")
            ));
        }
        self.imports.retain(|name| *name != IMPORTS[0]);
        self.imports.sort();
        Ok(self.imports)
    }
}

fn count(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Reads a description, and refuses what it asks for that this version cannot do.
pub fn manifest(json: &str, check_schema: super::SchemaCheck) -> Result<Manifest, Refusal> {
    let reader = &mut serde_json::Deserializer::from_str(json);
    let manifest: Manifest = match serde_path_to_error::deserialize(reader) {
        Ok(manifest) => manifest,
        Err(e) => return invalid(format!("the manifest does not fit at {}: {}", e.path(), e.inner())),
    };
    if manifest.abi != ABI {
        return invalid(format!("the manifest's abi is {:?}; this server speaks {ABI}", manifest.abi));
    }
    if manifest.version.is_empty() || manifest.version.len() > VERSION_BYTES {
        return invalid(format!("the manifest's version must have 1 to {VERSION_BYTES} bytes"));
    }
    if let Err(why) = check_schema(&manifest.payload_schema) {
        return invalid(format!("the manifest's payload_schema cannot be used: {why}"));
    }
    if let Some(schema) = &manifest.config_schema
        && let Err(why) = check_schema(schema)
    {
        return invalid(format!("the manifest's config_schema cannot be used: {why}"));
    }
    if let Some(retry) = manifest.retry {
        check_retry(retry)?;
    }
    if !manifest.remind_before.is_empty() {
        return invalid("the manifest asks for reminders (remind_before), which this version does not send");
    }
    Ok(manifest)
}

fn check_retry(retry: RetryPolicy) -> Result<(), Refusal> {
    let fits = (1..=RetryPolicy::MAX_ATTEMPTS).contains(&retry.attempts)
        && retry.initial >= RetryPolicy::MIN_WAIT
        && retry.max >= retry.initial;
    if fits {
        return Ok(());
    }
    invalid(format!(
        "the manifest's retry must have 1 to {} attempts, an initial wait of at least {} and a max that is not below it",
        RetryPolicy::MAX_ATTEMPTS,
        RetryPolicy::MIN_WAIT
    ))
}
