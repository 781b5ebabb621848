package lint

// Info describes a lint: what it finds, and what to do about it.
type Info struct {
	ID    string `json:"id"`
	Level string `json:"level"`
	Doc   string `json:"doc"`
	Help  string `json:"help"`
}

var lints = []Info{
	{"compile", LevelError, "The rule set does not load.",
		"Correct what the message names; until then the last good set stays in force."},
	{"never-matches", LevelError, "A condition can never hold, so that what it stands for never happens.",
		"Look for two values wanted of one field, a range that is empty, or a text in upper case that a text in lower case " +
			"is compared with."},
	{"always-matches", LevelWarning, "The condition of a rule always holds.",
		"Say what sets the events apart that the rule is for, or narrow `on`."},
	{"giant-regex", LevelWarning, "A regular expression is searched for in every text, or is very large.",
		"Begin it with ^, put a literal of three letters or more into it, or test contains() before it; split one of " +
			"thousands of instructions, or turn it into a list."},
	{"unindexed", LevelNote, "A rule has no condition by which the index can leave it out, so that it is evaluated for " +
		"every event of its kinds.",
		"Add a condition that is a comparison of a field with a constant: an equality, `in`, contains(), or a number."},
	{"missing-test", LevelWarning, "No test says that the rule fires.",
		"Name the rule in `fires` of a test in a *.test.yaml of its pack."},
	{"unknown-rule", LevelWarning, "A test names a rule that the set does not have.",
		"Correct the name; a test that wants an unknown rule to be silent passes whatever happens."},
	{"expired-exception", LevelWarning, "An exception has expired and no longer holds.",
		"Remove it, or have its owner say anew until when it is needed."},
	{"exception-soon", LevelNote, "An exception expires within 30 days.", "Ask its owner whether it is still needed."},
	{"over-budget", LevelWarning, "An expression may cost more than half of the limit.",
		"Nest fewer loops over texts and views, and test what is cheap first."},
	{"unused", LevelWarning, "Nothing mentions a list, macro or signal.",
		"Remove it, or use it: a signal takes memory for every event."},
	{"no-false-positives", LevelNote, "A rule does not say what it flags wrongly.",
		"Fill in false_positives: who sees an alert first asks whether it is one of those."},
	{"deprecated-enforced", LevelWarning, "A rule of status deprecated is in mode enforce.",
		"Set its mode to shadow or off, or remove it."},
	{"experimental-enforced", LevelWarning, "A rule of status experimental holds or denies.",
		"Set its mode to shadow until its false positives are known."},
	{"tag-form", LevelWarning, "A tag is of none of the documented forms.",
		"Use owasp.asi06, atlas.aml-t0080, cwe-94 or arxiv.2402.07867."},
	{"shadowed-name", LevelWarning, "A name hides another.",
		"Give the pack's list or macro, or the variable of the loop, a name of its own."},
	{"capital-in-view", LevelWarning, "A text with a capital is searched in `content.views`, which are in lower case.",
		"Write the literal in lower case."},
	{"absent-argument", LevelWarning, "An argument is read that an action may not have.",
		"Ask for it first: `has(action.args.path) && …`. An argument that is absent is an error, and the rule then has its " +
			"`on_error` effect on every such action."},
	{"foreign-field", LevelWarning, "An expression reads a field that no event of the rule's kinds has.",
		"Correct `on` or the field: what an event does not have is empty, 0 or false."},
	{"unread-file", LevelWarning, "Nothing reads a file of the set.", "Packs are folders with a pack.yaml, one level " +
		"deep; beside them stand groups.yaml, common.yaml and exceptions.yaml."},
	{"ungrouped-pack", LevelWarning, "A pack is in no group, so that no sentinel judges by it.",
		"Add it to a group in groups.yaml."},
}
