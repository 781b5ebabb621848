package cleanrules

// Files are the files of the rule set: text by file name. A test must change only a clone of the map.
var Files = map[string]string{
	"groups.yaml": "groups:\n  core: [p]\n",
	"common.yaml": "lists:\n  agents: [bot]\n",
	"p/pack.yaml": `name: p
title: Test
lists:
  words: [alpha, beta]
macros:
  known: action.tool in lists.words
signals:
  - name: calls
    doc: calls of this agent
    count:
      on: [action]
      key: event.agent
      when: action.level > 0
      window: 1m
`,
	"p/r.yaml": `rules:
  - id: r1
    title: One
    severity: low
    status: stable
    mode: enforce
    tags: [owasp.asi06, atlas.aml-t0080, cwe-94, arxiv.2402.07867]
    on: [action]
    when: >-
      macros.known
      && signal.calls > 3
    effect: hold
    on_error: hold
    subject: action
    message: "'m'"
    false_positives: Some.
`,
	"p/r.test.yaml": `tests:
  - name: one
    given:
      - action: {tool: alpha, level: 1}
    fires: {r1: 1}
    silent: [r1]
`,
	"exceptions.yaml": `exceptions:
  - id: x1
    rules: [r1]
    when: event.agent in lists.agents
    owner: dana
    reason: tried out
    expires: 2027-01-01
`,
}
