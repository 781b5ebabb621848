package rules

import (
	"regexp"
	"strings"
)

// Markers are classes of instruction that a text carries for whoever reads it.
// They are reasoned from what an instruction to a model has to say (put aside
// what you were told, be somebody else, do this, tell nobody, keep it), over
// normalised and decoded views, and not from any collection of attacks. Alone
// each of them is common in harmless text; rules decide what to make of them.

// marker is one class: stems, one of which a view must hold before the
// expression is tried, and the expression.
type marker struct {
	name  string
	stems []string
	expr  *regexp.Regexp
}

// actionVerbs are what an instruction asks a tool to do.
const actionVerbs = `(?:send|transfer|e?mail|forward|upload|post|publish|share|delete|remove|erase|wipe|pay|buy|purchase|order|grant|revoke|give|download|execute|run|call|invoke|use|change|update|modify|set|reset|unlock|open|lock|disable|enable|add|create|book|schedule|cancel|withdraw|deposit|redeem|reveal|export|copy|move|fetch|retrieve|access|search|find|check|show|read|get|submit|register|subscribe|install|write|append|replace|store|save|remember|recommend|approve|deny|reject|visit|navigate|click)`

var markerList = []marker{
	{"override", []string{"ignore", "disregard", "forget", "override", "overrule", "bypass", "supersede", "stop following", "not follow", "instead of"},
		regexp.MustCompile(`\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|overrid(?:e|es|ing)|overrul(?:e|ing)|bypass(?:ing)?|supersedes?|stop following|(?:do|must|should) not follow)\b[^.!?]{0,60}\b(?:previous|prior|earlier|above|preceding|former|original|existing|initial|all|any|every|your|the system|system|other)\b[^.!?]{0,40}\b(?:instruct\w*|prompts?|rules?|guidelines?|directions?|directives?|commands?|messages?|context|tasks?|polic(?:y|ies)|restrictions?|safety|constraints?)|\b(?:ignore|disregard|forget|override|bypass)\b[^.!?]{0,30}\b(?:instruct\w*|prompts?|rules?|guidelines?|directions?|directives?|commands?|tasks?|polic(?:y|ies)|restrictions?|constraints?)\b[^.!?]{0,30}\b(?:above|before|earlier|so far|you (?:were|have been|are) given)`)},
	{"role", []string{"<|", "[inst", "[system", "### ", "you are now", "new instruction", "system prompt", "system message", "system:", "developer mode", "act as", "<system", "end of", "admin mode", "important instruction"},
		regexp.MustCompile(`<\|(?:im_start|im_end|system|user|assistant|endoftext)|\[/?(?:inst|system)\]|###\s*(?:instruction|system|new task)|\byou are now\b|\bnew (?:system )?instructions?\b|(?:^|[\n.;])\s*system(?: message| prompt)?\s*:|</?system>|\b(?:developer|admin|root|god|maintenance) mode\b|\bact as (?:if|an?|the)\b|\bend of (?:the )?(?:document|context|prompt|email|data|system prompt)\b|\bimportant instructions?\b`)},
	{"address", []string{"assistant", " ai ", "ai:", "ai,", "agent", "language model", "llm", "chatbot", "the model"},
		regexp.MustCompile(`\b(?:ai|assistant|agents?|language models?|llms?|chatbot|the model)\b[^.!?]{0,30}\b(?:must|should|shall|needs? to|ha(?:s|ve) to|please|is (?:required|instructed|asked) to|are (?:required|instructed|asked) to)\b|\b(?:dear|hey|hello|attention|note (?:to|for)|instructions? (?:to|for)|message (?:to|for))[ ,:]+(?:the |any |all |this )?(?:ai|assistant|agents?|language models?|llms?|chatbot|model)\b`)},
	{"request", []string{"please", "kindly", "you must", "you should", "you need", "make sure", "be sure", "can you", "could you", "i need you", "i want you", "i would like", "i'd like", "go ahead", "now ", "then ", "also ", "first", "before ", "after ", "immediately", "next", "your task", "to continue", "to proceed", "remember to", "help me", "let's", ". ", ": \"", "\n"},
		regexp.MustCompile(`(?:\b(?:please|kindly|you (?:must|should|need to|have to|are required to|will)|make sure (?:to|you)|be sure to|can you|could you|would you|i need you to|i want you to|i(?:'d| would) like (?:you )?to|go ahead and|immediately|your (?:new )?task is to|help me(?: to)?|let's|remember to|do not forget to|don't forget to)\s+(?:also |now |then |first |immediately |directly |just |next )?|(?:^|[.!?;:"'\n]\s*)(?:now |then |also |next |first |immediately )?)` + actionVerbs + `\b[^.!?]{3,}`)},
	{"exfiltrate", []string{"password", "credential", "api key", "apikey", "secret", "token", "private key", "conversation", "chat history", "system prompt", "personal data", "confidential"},
		regexp.MustCompile(`\b(?:send|forward|e?mail|upload|post|transmit|leak|exfiltrate|share|reveal|include|append|copy|submit|export)\b[^.!?]{0,80}\b(?:passwords?|credentials?|api ?keys?|secrets?|tokens?|private keys?|(?:the |this |our )?conversation|chat history|system prompt|personal (?:data|information)|confidential)`)},
	{"secrecy", []string{"tell", "inform", "mention", "notify", "reveal", "disclose", "secret", "silent", "without", "quietly"},
		regexp.MustCompile(`\b(?:do not|don't|never|without|avoid)\b[^.!?]{0,24}\b(?:tell|telling|inform\w*|mention\w*|reveal\w*|notif\w+|disclos\w+|alert\w*|ask\w*)\b[^.!?]{0,24}\b(?:user|human|anyone|anybody|operator|owner|them|him|her|this|it|confirmation)\b|\bwithout (?:the )?(?:user'?s?|owner'?s?|their|any) (?:knowledge|consent|permission|confirmation|approval)\b|\b(?:secretly|silently|quietly) ` + actionVerbs)},
	{"tool", []string{"tool", "function", "api", "command", "plugin"},
		regexp.MustCompile(`\b(?:call|invoke|use|run|execute|trigger|utili[sz]e|employ)\b[^.!?]{0,40}\b(?:tools?|functions?|api|commands?|plugins?)\b`)},
	{"persist", []string{"remember", "memor", "from now on", "always", "permanent", "every time", "all future"},
		regexp.MustCompile(`\b(?:remember|memori[sz]e|store|save|keep)\b[^.!?]{0,60}\b(?:always|from now on|in future|for future|in (?:your |the )?(?:long[- ]term )?memory|permanently|all future|every session)\b|\bfrom now on,? (?:you|always|never|every|all)\b|\b(?:in|for) all future (?:sessions?|conversations?|tasks?)\b`)},
}

// maxMarked is how much of a view is searched for markers, in bytes from its
// start and as much from its end.
const maxMarked = 64 << 10

// markers lists the classes that any view carries, in a fixed order.
func markers(views []string, hidden bool) []string {
	var out []string
	for i := range markerList {
		m := &markerList[i]
		for _, v := range views {
			if len(v) > 2*maxMarked {
				v = v[:maxMarked] + "\n" + v[len(v)-maxMarked:]
			}
			if m.in(v) {
				out = append(out, m.name)
				break
			}
		}
	}
	if hidden {
		out = append(out, "hidden")
	}
	return out
}

func (m *marker) in(view string) bool {
	for _, s := range m.stems {
		if strings.Contains(view, s) {
			return m.expr.MatchString(view)
		}
	}
	return false
}
