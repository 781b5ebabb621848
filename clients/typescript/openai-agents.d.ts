import type { AdapterOptions, Lazaret } from "./index.js";

export interface GuardToolsOptions extends Omit<AdapterOptions, "prompts"> {
  /** Names of tools that are no function tools, which are left as they are. */
  unguarded?: string[];
}

/** The same tools, each of which asks before it runs and records its result before it returns. */
export declare function guardTools<T extends { type: string; name: string }>(lz: Lazaret, tools: T[], options?: GuardToolsOptions): T[];

/** A callModelInputFilter that records prompts. */
export declare function recordPrompts(lz: Lazaret, options?: Pick<AdapterOptions, "session" | "prompts">): (args: { modelData: any }) => Promise<any>;
