/**
 * RJSF's validator without code generation: the content policy forbids `eval`, which Ajv needs. Its verdicts only guide
 * the form; the server is the judge.
 */
import { Validator, type Schema } from "@cfworker/json-schema";
import { createErrorHandler, getDefaultFormState, unwrapErrorHandler, validationDataMerge, type RJSFSchema, type RJSFValidationError, type ValidatorType } from "@rjsf/utils";

function check(schema: unknown, data: unknown): RJSFValidationError[] {
  try {
    const { errors } = new Validator(schema as Schema, "2020-12", false).validate(data ?? null);
    return errors
      .filter((e) => e.keyword !== "properties" && e.keyword !== "items" && e.keyword !== "$ref" && e.keyword !== "false")
      .map((e) => ({ name: e.keyword, message: e.error, property: propertyOf(e.instanceLocation), stack: e.error, schemaPath: e.keywordLocation }));
  } catch {
    // A schema that this validator cannot follow is the server's to check.
    return [];
  }
}

/** `#/items/0/sku` as RJSF writes it: `.items.0.sku`. */
function propertyOf(location: string): string {
  const path = location.replace(/^#/, "").split("/").slice(1).map((p) => decodeURIComponent(p).replaceAll("~1", "/").replaceAll("~0", "~"));
  return path.map((p) => `.${p}`).join("");
}

export function makeValidator<T = unknown>(): ValidatorType<T> {
  const validator: ValidatorType<T> = {
    validateFormData(formData, schema, customValidate, transformErrors) {
      let errors = check(schema, formData);
      if (transformErrors) errors = transformErrors(errors);
      const errorSchema = toSchema<T>(errors);
      if (!customValidate) return { errors, errorSchema };
      const full = getDefaultFormState<T>(validator, schema, formData, schema, true) as T;
      const handled = customValidate(full, createErrorHandler<T>(full));
      return validationDataMerge<T>({ errors, errorSchema }, unwrapErrorHandler<T>(handled));
    },
    isValid(schema, formData, rootSchema) {
      const rooted = { ...(schema as RJSFSchema), $defs: (rootSchema as RJSFSchema)?.$defs, definitions: (rootSchema as RJSFSchema)?.definitions };
      return check(rooted, formData).length === 0;
    },
    rawValidation(schema, formData) {
      return { errors: check(schema, formData) as never[] };
    },
    reset() {},
  };
  return validator;
}


function toSchema<T>(errors: RJSFValidationError[]) {
  const root: Record<string, unknown> = {};
  for (const error of errors) {
    let at = root;
    for (const part of (error.property ?? "").split(".").filter((p) => p !== "" && p !== "__proto__")) at = (at[part] ??= {}) as Record<string, unknown>;
    ((at["__errors"] ??= []) as string[]).push(error.message ?? "");
  }
  return root as ReturnType<ValidatorType<T>["validateFormData"]>["errorSchema"];
}

/** The server's pointers, such as `/payload/items/0/sku`, on the form's fields. */
export function extraErrors(faults: readonly { pointer?: string; detail?: string }[], under: string): Record<string, unknown> {
  const root: Record<string, unknown> = {};
  for (const { pointer = "", detail = "" } of faults) {
    if (pointer !== under && !pointer.startsWith(`${under}/`)) continue;
    let at = root;
    for (const part of pointer.slice(under.length).split("/").slice(1)) {
      const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
      if (["__proto__", "constructor", "prototype"].includes(name)) break;
      at = (at[name] ??= {}) as Record<string, unknown>;
    }
    ((at["__errors"] ??= []) as string[]).push(detail);
  }
  return root;
}
