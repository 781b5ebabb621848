import type { HookCallbackMatcher } from "@anthropic-ai/claude-agent-sdk";
import type { AdapterOptions, Lazaret, Origin } from "./index.js";

/** Hooks for query's option `hooks`. */
export declare function lazaretHooks(lz: Lazaret, options?: AdapterOptions):
  Partial<Record<"UserPromptSubmit" | "PreToolUse" | "PostToolUse" | "PostToolUseFailure", HookCallbackMatcher[]>>;

/** web for what fetches, document for what reads files, tool for others. */
export declare function claudeOrigin(tool: string): Origin;
