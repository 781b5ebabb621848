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
		"Correct the fault that the message names. Until then the set in force stays in force."},
	{"never-matches", LevelError, "A condition is never true.",
		"Look for two different values required of one field, an empty range, or an upper-case text that is " +
			"compared with a lower-case one."},
	{"always-matches", LevelWarning, "The condition of a rule is always true.",
		"Add what distinguishes the events that the rule is for, or narrow `on`."},
	{"giant-regex", LevelWarning, "A regular expression is searched for in every text, or is very large. Above 8000 instructions it is an error.",
		"Begin it with ^, require a literal of three letters or more, or test contains() first. Split a very large " +
			"one, or turn it into a list."},
	{"unindexed", LevelNote,
		"A rule has no condition that the index can use, so it is evaluated for every event of its kinds.",
		"Add a condition that compares a field with a constant: an equality, `in`, contains(), or a number."},
	{"missing-test", LevelWarning, "No test expects the rule to fire.",
		"Name the rule in `fires` of a test in a *.test.yaml of its pack."},
	{"unknown-rule", LevelWarning, "A test names a rule that the set does not have.",
		"Correct the name. A test that expects an unknown rule to be silent always passes."},
	{"expired-exception", LevelWarning, "An exception has expired and no longer applies.",
		"Remove it, or have its owner set a new expiry."},
	{"exception-soon", LevelNote, "An exception expires within 30 days.",
		"Ask its owner whether it is still needed."},
	{"over-budget", LevelWarning, "An expression may cost more than half of the limit.",
		"Nest fewer loops over texts and views, and put cheap conditions first."},
	{"unused", LevelWarning, "A list, macro or signal is not used.",
		"Remove it, or use it. An unused signal still takes memory for every event."},
	{"no-false-positives", LevelNote, "A rule has no false_positives.",
		"Fill in false_positives, so that the reader of an alert can recognize a false one."},
	{"deprecated-enforced", LevelWarning, "A rule of status deprecated is in mode enforce.",
		"Set its mode to shadow or off, or remove it."},
	{"experimental-enforced", LevelWarning, "A rule of status experimental holds or denies.",
		"Set its mode to shadow until its false positives are known."},
	{"tag-form", LevelWarning, "A tag has none of the documented forms.",
		"Use owasp.asi06, atlas.aml-t0080, cwe-94 or arxiv.2402.07867."},
	{"shadowed-name", LevelWarning, "A name hides another.",
		"Give the pack's list or macro, or the variable of the loop, a name of its own."},
	{"capital-in-view", LevelWarning,
		"A text with a capital letter is searched in `content.views`, which are in lower case.",
		"Write the literal in lower case."},
	{"absent-argument", LevelWarning, "An argument is read that an action may not have.",
		"Ask for it first: `has(action.args.path) && …`. An argument that is absent is an error, and the rule then has its " +
			"`on_error` effect on every such action."},
	{"foreign-field", LevelWarning, "An expression reads a field that no event of the rule's kinds has.",
		"Correct `on` or the field. A field that an event does not have is empty, 0 or false."},
	{"unread-file", LevelWarning, "A file of the set is never read.",
		"Packs are folders with a pack.yaml, one level deep. Next to them are groups.yaml, common.yaml and " +
			"exceptions.yaml."},
	{"ungrouped-pack", LevelWarning, "A pack is in no group, so no sentinel evaluates its rules.",
		"Add it to a group in groups.yaml."},
}
