import type { AdapterOptions, Lazaret } from "./index.js";

export interface GuardToolsOptions extends Omit<AdapterOptions, "prompts"> {
  /** Names of tools without execute, which are left as they are. */
  unguarded?: string[];
}

/** The same tools, each of which asks before it runs and records its result before it returns. */
export declare function guardTools<T extends Record<string, unknown>>(lz: Lazaret, tools: T, options?: GuardToolsOptions): T;

/** Middleware for wrapLanguageModel that records prompts. */
export declare function recordPrompts(lz: Lazaret, options?: Pick<AdapterOptions, "session" | "prompts">): {
  specificationVersion: "v3";
  transformParams: (options: { params: any }) => Promise<any>;
};
