import type { AdapterOptions, Lazaret } from "./index.js";

export interface GuardToolsOptions extends Omit<AdapterOptions, "prompts"> {
  /** Names of tools without `execute`, which are not guarded. */
  unguarded?: string[];
}

/** Wraps the tools: each asks before it runs, and records its result before it returns it. */
export declare function guardTools<T extends Record<string, unknown>>(lz: Lazaret, tools: T, options?: GuardToolsOptions): T;

/** Middleware for wrapLanguageModel that records each message before the model gets it. */
export declare function recordPrompts(lz: Lazaret, options?: Pick<AdapterOptions, "session" | "prompts">): {
  specificationVersion: "v3";
  transformParams: (options: { params: any }) => Promise<any>;
};
