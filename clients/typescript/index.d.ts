export type Verdict = "allow" | "hold" | "deny";
export type Origin = "user" | "system" | "agent" | "tool" | "document" | "email" | "web";
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Fields that every event may have. `id` names it: the same id with the same body is the same event. */
export interface Head { id?: string; session?: string; user?: string; data_subject?: string }

export interface Observation extends Head {
  /** Where the content comes from; "tool" unless stated. The token must be granted it. */
  origin?: Origin;
  content?: string;
  blocks?: { type?: string; text: string }[];
  tool?: string;
  /** Id of the tool call that this answers. */
  call?: string;
  args?: object;
  /** A URL, a path, a sender. */
  source?: string;
}

export interface Action extends Head {
  tool: string;
  args?: object;
  /** Ids of beliefs that it rests on. */
  beliefs?: string[];
  decision?: string;
  /** 0 to 1. */
  confidence?: number;
  host_verdict?: Verdict;
  /** Id of a held action that this is an edit of. */
  replaces?: string;
  /** Last acknowledged intake sequence; the client fills it in. */
  after?: number;
}

export interface Memory extends Head {
  /** "agent" unless stated. */
  origin?: Origin;
  content: string;
  key?: string;
  category?: string;
  channel?: "write" | "compaction" | "skill" | "import";
  derived_from?: string[];
  source?: string;
  sensitivity?: "public" | "internal" | "confidential" | "secret";
  scope?: "project" | "user" | "session";
  /** Seconds. */
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
  /** May enter a plan. */
  admitted?: Item[];
  /** To read and not to act on. */
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
  /** Set while a person may still release it. */
  hold?: { id: string; revision: string; expires: string };
  /** Of the action, to be reported with its outcome. */
  digest?: string;
  belief?: { id: string; [key: string]: unknown };
  recall?: Recalled;
  error?: Error;
  /** The pipeline's reply as it came. */
  reply?: unknown;
  /** What was asked, so that await can ask again. */
  asked: { path: string; body: object; type: string };
}

export interface Recorded { id: string; intake_seq: number; ledger_seq?: number; repeat?: boolean; reuses?: string }

export interface Options {
  /** http://127.0.0.1:4280 unless stated. */
  url?: string;
  /** lazaret agent token new PROJECT AGENT */
  token: string;
  /** Session of events that name none. */
  session?: string;
  /** Milliseconds for one call, with its retries (25,000). */
  timeout?: number;
  /** How often a request is sent at most (4). */
  tries?: number;
  fetch?: typeof fetch;
}

export interface PerformOptions<R = unknown> {
  /** Origin of its result ("tool"). */
  origin?: Origin;
  source?: string;
  /** Session of the call; the client's unless stated. */
  session?: string;
  /** Milliseconds to wait for a person when the call is held (0). */
  wait?: number;
  /** Ends the wait. */
  signal?: AbortSignal;
  /** The result as the model is shown it; JSON unless it is a string. */
  text?: (result: R) => string;
  /** Whether a result reports a failure. */
  failed?: (result: R) => boolean;
  /** Whether what the tool threw is a framework's control flow, of which the model sees nothing. */
  passes?: (err: unknown) => boolean;
}

export interface GuardOptions<A extends unknown[], R = unknown> extends PerformOptions<R> {
  /** The tool's name in the policy; the function's name unless stated. */
  name?: string;
  /** What the arguments are, for the policy and the rules; a single object unless stated. */
  args?: (...input: A) => object;
}

/** Options of every adapter. */
export interface AdapterOptions {
  /** Milliseconds to wait for a person when a call is held (0). */
  wait?: number;
  /** Session; the framework's thread or the client's unless stated. */
  session?: string;
  /** Origin of the results of a tool: one for all, or by the tool's name ("tool"). */
  origin?: Origin | ((tool: string) => Origin);
  /** Origin of prompts ("user"): who writes them. false records none. */
  prompts?: Origin | false;
}

/** The content of a tool_result of Anthropic's memory tool. */
export interface MemoryToolResult {
  content: string;
  is_error: boolean;
  /** Of the question that the call led to; absent where none was asked. */
  verdict?: Verdict;
  /** Hold of a write that a person may still release: make the same call again then. */
  hold?: string;
  error?: Error;
}

/** An observation or report that was not recorded. */
export declare class LazaretError extends Error {
  /** LZ… (docs/errors.md); LZ203 where nobody answered. */
  code: string;
  problem?: { status: number; [key: string]: unknown };
}

/** A guarded tool did not run. */
export declare class Refused extends Error {
  verdict: Verdict;
  answer: Answer;
}

/** Speaks for the agent that the token stands for. */
export declare class Lazaret {
  constructor(options: Options);
  /** Records what the model is about to be shown. Throws LazaretError: show nothing of it then. */
  observe(event: Observation): Promise<Recorded>;
  /** Asks before the agent acts. Never throws: every failure is a hold. */
  decide(action: Action): Promise<Answer>;
  /** Asks before the agent writes to its memory. */
  remember(memory: Memory): Promise<Answer>;
  /** Asks what of memory may enter the context. */
  recall(query: string | Recall): Promise<Answer>;
  /** Asks which candidates of another memory store may enter the context. */
  gate(candidates: (string | Candidate)[], more?: Omit<Recall, "query" | "key" | "filter">): Promise<Answer>;
  /**
   * Carries out a call of Anthropic's memory tool.
   * wait: milliseconds to wait for a person when a write is held (0, at most 300,000).
   */
  memoryTool(input: object, options?: { session?: string; user?: string; dataSubject?: string; wait?: number }): Promise<MemoryToolResult>;
  /** Reports what came of an action; cancelled withdraws it. */
  outcome(answer: Answer, status: "ok" | "error" | "skipped" | "cancelled", content?: string): Promise<Recorded>;
  /** Clears what was held for input that was not recorded. */
  startSession(session?: string): Promise<Recorded>;
  /** The answer once the hold has ended, or the hold when the time is over (600,000 ms). */
  await(answer: Answer, options?: { timeout?: number; signal?: AbortSignal }): Promise<Answer>;
  /** The tool, which asks before it runs and records its result before it returns it. It throws Refused. */
  guard<A extends unknown[], R>(tool: (...input: A) => R | Promise<R>, options?: GuardOptions<A, R>): (...input: A) => Promise<R>;
  /** One call of a tool, as guard makes it. Adapters are built on it. */
  perform<R>(name: string, args: object, run: (answer: Answer) => R | Promise<R>, options?: PerformOptions<R>): Promise<R>;
  /** Records what enters a prompt, once a session. */
  observeOnce(event: Observation): Promise<void>;
}

/** The text that tells a model why a call did not run, or why its result is withheld. */
export declare function refusal(err: Error): string;
/** Whether an error is Refused or LazaretError. */
export declare function isRefusal(err: unknown): boolean;
/** An id that the protocol allows for a text, such as a framework's name of a thread. */
export declare function idOf(text: string | undefined): Promise<string | undefined>;
/** A result as the model is shown it: a string as it is, all else as JSON. */
export declare function textOf(result: unknown): string;
