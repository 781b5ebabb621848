import type { HookCallbackMatcher } from "@anthropic-ai/claude-agent-sdk";
import type { AdapterOptions, Lazaret, Origin } from "./index.js";

/** Hooks for query's option `hooks`. */
export declare function lazaretHooks(lz: Lazaret, options?: AdapterOptions):
  Partial<Record<"UserPromptSubmit" | "PreToolUse" | "PostToolUse" | "PostToolUseFailure", HookCallbackMatcher[]>>;

/** The default origin of a tool's results: web for tools that fetch, document for tools that read files, else tool. */
export declare function claudeOrigin(tool: string): Origin;
