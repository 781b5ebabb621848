import type { AgentMiddleware } from "langchain";
import type { AdapterOptions, Lazaret } from "./index.js";

/** Records prompts and results before the model sees them, and asks before each call of a tool. */
export declare function lazaretMiddleware(lz: Lazaret, options?: AdapterOptions): AgentMiddleware;
