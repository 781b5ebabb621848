export type Verdict = "allow" | "hold" | "deny";
export type Origin = "user" | "system" | "agent" | "tool" | "document" | "email" | "web";
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/**
 * Fields that every event may have. If an event with the same `id` and the same body is sent again, it is recorded
 * once.
 */
export interface Head { id?: string; session?: string; user?: string; data_subject?: string }

export interface Observation extends Head {
  /** Where the content comes from (default "tool"). The token's credential must permit this origin. */
  origin?: Origin;
  content?: string;
  blocks?: { type?: string; text: string }[];
  tool?: string;
  /** Id of the tool call that returned this content. */
  call?: string;
  args?: object;
  /** Where the content was read: a URL, a path, a sender. */
  source?: string;
}

export interface Action extends Head {
  tool: string;
  args?: object;
  /** Ids of the beliefs that are the reason for the action. */
  beliefs?: string[];
  decision?: string;
  /** The agent's confidence in the action, 0 to 1. */
  confidence?: number;
  host_verdict?: Verdict;
  /** Id of the held action that this action replaces. */
  replaces?: string;
  /** Last acknowledged intake sequence; the client fills it in. */
  after?: number;
}

export interface Memory extends Head {
  /** Origin of the words (default "agent"). */
  origin?: Origin;
  content: string;
  key?: string;
  category?: string;
  channel?: "write" | "compaction" | "skill" | "import";
  derived_from?: string[];
  source?: string;
  sensitivity?: "public" | "internal" | "confidential" | "secret";
  scope?: "project" | "user" | "session";
  /** Seconds after which the memory expires. */
  ttl?: number;
  after?: number;
}

export interface Recall extends Head {
  query?: string;
  key?: string;
  filter?: { kind?: "memory" | "content"; agent?: string; session?: string; origin?: Origin; category?: string; tool?: string; source?: string; since?: string; until?: string };
  purpose?: "extraction" | "planning" | "decision" | "explanation";
  /** 1 to 100, default 10. */
  limit?: number;
  spotlight?: boolean;
  after?: number;
}

export interface Candidate { id?: string; content?: string; source?: string; score?: number }
export interface Item { id: string; content: string; score: number; origin?: Origin; reason?: string; partial?: boolean; effects?: string[] }
export interface Recalled {
  /** Memories that the agent may use for plans. */
  admitted?: Item[];
  /** Texts that the agent may read, but must not act on. */
  context_only?: Item[];
  contradictions?: Item[];
  refused?: { id: string; reason: string; text?: string }[];
}

export interface Reason { code: string; verdict: Verdict; rule?: string; group?: string; text: string; path?: string[] }

/** The answer to a request. If the pipeline gave no verdict, it is a hold with `error`. */
export interface Answer {
  verdict: Verdict;
  id: string;
  session?: string;
  reasons: Reason[];
  /** Set if the verdict is hold and a person may still release it. */
  hold?: { id: string; revision: string; expires: string };
  /** Digest of the action. Report it with the action's outcome. */
  digest?: string;
  belief?: { id: string; [key: string]: unknown };
  recall?: Recalled;
  error?: Error;
  /** The unchanged reply of the pipeline. */
  reply?: unknown;
  /** The request, so that `await` can send it again. */
  asked: { path: string; body: object; type: string };
}

export interface Recorded { id: string; intake_seq: number; ledger_seq?: number; repeat?: boolean; reuses?: string }

export interface Options {
  /** Address of the gateway (default http://127.0.0.1:4280). */
  url?: string;
  /** Bearer token, made by `lazaret agent token new PROJECT AGENT`. */
  token: string;
  /** Session of events that do not name one. */
  session?: string;
  /** Time-out of one call with all its tries, in milliseconds (default 25,000). */
  timeout?: number;
  /** How many times a request is sent at most (default 4). */
  tries?: number;
  fetch?: typeof fetch;
}

export interface PerformOptions<R = unknown> {
  /** Origin of the result (default "tool"). */
  origin?: Origin;
  source?: string;
  /** Session of the call (default: the client's). */
  session?: string;
  /** How long a held call waits for a person, in milliseconds (default 0). */
  wait?: number;
  /** Ends the wait. */
  signal?: AbortSignal;
  /** Makes the text that the model gets from a result. By default, a string as it is, and else JSON. */
  text?: (result: R) => string;
  /** Whether a result reports a failure. */
  failed?: (result: R) => boolean;
  /** Whether an error that the tool threw is control flow of the framework, which the model does not see. */
  passes?: (err: unknown) => boolean;
}

export interface GuardOptions<A extends unknown[], R = unknown> extends PerformOptions<R> {
  /** The tool's name in the policy (default: the function's name). */
  name?: string;
  /** Makes the object of arguments that policy and rules judge. By default, the only argument of the tool. */
  args?: (...input: A) => object;
}

/** Options of every adapter. */
export interface AdapterOptions {
  /** How long a held call waits for a person, in milliseconds (default 0). */
  wait?: number;
  /** Session of all events (default: the framework's thread, or else the client's session). */
  session?: string;
  /** Origin of results: one for all tools, or a function of the tool's name (default "tool"). */
  origin?: Origin | ((tool: string) => Origin);
  /** Origin of prompts (default "user"). If false, prompts are not recorded. */
  prompts?: Origin | false;
}

/** The content of a tool_result of Anthropic's memory tool. */
export interface MemoryToolResult {
  content: string;
  is_error: boolean;
  /** Verdict on the call; absent if the call needs no verdict. */
  verdict?: Verdict;
  /** Id of the hold of a held write. After a person has approved it, make the same call again. */
  hold?: string;
  error?: Error;
}

/** An observation or report that was not recorded. */
export declare class LazaretError extends Error {
  /** A code LZ… of docs/errors.md; LZ203 if there was no answer. */
  code: string;
  problem?: { status: number; [key: string]: unknown };
}

/** A guarded tool did not run, because its call was held or denied. */
export declare class Refused extends Error {
  verdict: Verdict;
  answer: Answer;
}

/** Client of the gateway, for the agent to which the token belongs. */
export declare class Lazaret {
  constructor(options: Options);
  /** Records content before the model sees it. If it throws LazaretError, do not show the content. */
  observe(event: Observation): Promise<Recorded>;
  /** Asks for a verdict before the agent acts. Never throws: every failure is a hold. */
  decide(action: Action): Promise<Answer>;
  /** Asks for a verdict before the agent writes to its memory. */
  remember(memory: Memory): Promise<Answer>;
  /** Searches the memory, and returns the texts that may enter the context. */
  recall(query: string | Recall): Promise<Answer>;
  /** Asks which texts from another memory store may enter the context. */
  gate(candidates: (string | Candidate)[], more?: Omit<Recall, "query" | "key" | "filter">): Promise<Answer>;
  /**
   * Carries out a call of Anthropic's memory tool.
   * wait: how long a held write waits for a person, in milliseconds (default 0, at most 300,000).
   */
  memoryTool(input: object, options?: { session?: string; user?: string; dataSubject?: string; wait?: number }): Promise<MemoryToolResult>;
  /** Reports the outcome of an action. The status cancelled withdraws a held action. */
  outcome(answer: Answer, status: "ok" | "error" | "skipped" | "cancelled", content?: string): Promise<Recorded>;
  /** Starts the session again. This ends the holds for observations that could not be recorded. */
  startSession(session?: string): Promise<Recorded>;
  /** Waits until the hold has ended or the time-out is over (default 600,000 ms), and returns the latest answer. */
  await(answer: Answer, options?: { timeout?: number; signal?: AbortSignal }): Promise<Answer>;
  /**
   * Wraps a tool: asks before it runs, and records its result before it returns it. It throws Refused if the call
   * may not run.
   */
  guard<A extends unknown[], R>(tool: (...input: A) => R | Promise<R>, options?: GuardOptions<A, R>): (...input: A) => Promise<R>;
  /** Makes one guarded call: asks, calls `run`, records the result and returns it. Adapters use it. */
  perform<R>(name: string, args: object, run: (answer: Answer) => R | Promise<R>, options?: PerformOptions<R>): Promise<R>;
  /** Records a text that enters a prompt. If this client has already recorded the same text in this session, it does nothing. */
  observeOnce(event: Observation): Promise<void>;
}

/** Returns the text that tells the model why a call did not run, or why it does not get the result. */
export declare function refusal(err: Error): string;
/** Reports whether an error is Refused or LazaretError. */
export declare function isRefusal(err: unknown): boolean;
/** Makes a legal id from a text, such as a framework's thread id: the text itself if it is legal, else its digest. */
export declare function idOf(text: string | undefined): Promise<string | undefined>;
/** Returns a result as text: a string as it is, any other value as JSON. */
export declare function textOf(result: unknown): string;
