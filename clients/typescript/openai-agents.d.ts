import type { AdapterOptions, Lazaret } from "./index.js";

export interface GuardToolsOptions extends Omit<AdapterOptions, "prompts"> {
  /** Names of tools that are not function tools. They are not guarded. */
  unguarded?: string[];
}

/** Wraps the tools: each asks before it runs, and records its result before it returns it. */
export declare function guardTools<T extends { type: string; name: string }>(lz: Lazaret, tools: T[], options?: GuardToolsOptions): T[];

/** A callModelInputFilter that records each item before the model gets it. */
export declare function recordPrompts(lz: Lazaret, options?: Pick<AdapterOptions, "session" | "prompts">): (args: { modelData: any }) => Promise<any>;
