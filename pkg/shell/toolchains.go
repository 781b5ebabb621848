package shell

import (
	"regexp"
	"slices"
	"strings"
)

// versioned are programs that print their version and do nothing else if their only argument asks for it.
var versioned = set(`node npm npx pnpm yarn bun deno tsc python python3 pip pip3 uv poetry tox pytest ruff black mypy
	ruby bundle gem php composer go gofmt golangci-lint cargo rustc rustup rustfmt java javac mvn gradle kotlin
	scala dotnet swift elixir mix gcc g++ clang cmake ctest make ninja docker docker-compose kubectl helm terraform git gh
	code vim nvim emacs nano bash zsh curl jq rg`)

// otherVersion are the arguments besides --version that ask a program for its version. To other programs, such a word
// may be a task or a script.
var otherVersion = map[string]string{"go": "version", "docker": "version", "kubectl": "version", "helm": "version",
	"terraform": "version", "gh": "version", "java": "-version", "javac": "-version", "python": "-V", "python3": "-V",
	"node": "-v", "npm": "-v", "pnpm": "-v", "rustc": "-V", "cargo": "-V"}

// asksVersion reports whether a program only prints its version.
func asksVersion(name string, args []word) bool {
	return versioned[name] && len(args) == 1 && (args[0].text == "--version" || args[0].text == otherVersion[name])
}

// subLookers are subcommands that only look, by program. A key may have two words. If a program of remoteSubs is
// called, the text that it prints is from a server.
var subLookers = func() map[string]map[string]*options {
	none := func(string) bool { return false }
	list := &options{short: "aglq", long: set("depth all json parseable long global prod production dev omit")}
	why := &options{some: true, operand: packageName, long: set("json depth recursive")}
	nodeSubs := map[string]*options{"ls": list, "list": list, "why": why, "explain": why, "root": {operand: none},
		"prefix": {operand: none}, "bin": {operand: none},
		"outdated": {operand: packageName, short: "g", long: set("json long")},
		"audit":    {operand: none, long: set("json omit audit-level production")},
		"view":     {some: true, operand: packageName, long: set("json")},
		"info":     {some: true, operand: packageName, long: set("json")}}
	pip := map[string]*options{"freeze": {operand: none, long: set("all local user exclude-editable")},
		"list": {operand: pipName, short: "loue", long: set(`outdated uptodate local user format not-required
			verbose editable`)},
		"show":  {some: true, operand: packageName, short: "fv", long: set("files verbose")},
		"check": {operand: none}}
	docker := map[string]*options{}
	shows := &options{short: "aqsnf:lt:", long: set(`all quiet no-trunc size filter format last latest tail since until
		timestamps details no-color no-log-prefix services status no-stream orphans human digests`)}
	for _, line := range strings.Fields(`ps images image/ls image/history history container/ls logs container/logs version
		info port volume/ls network/ls context/ls system/df compose/ps compose/logs compose/images
		compose/ls compose/version`) {
		docker[line] = shows
	}
	compose := map[string]*options{}
	for key, o := range docker {
		if _, sub, ok := strings.Cut(key, "compose/"); ok {
			compose[sub] = o
		}
	}
	kubectl := map[string]*options{}
	noFile := func(s string) bool { return !strings.Contains(s, "file") } // jsonpath-file=x reads a file
	gets := &options{short: "n:o:l:Ac:pL:", checked: map[string]func(string) bool{"o": noFile, "output": noFile},
		long: set(`namespace selector all-namespaces show-labels sort-by
		field-selector no-headers label-columns tail since since-time previous container all-containers timestamps prefix
		containers client short recursive api-group namespaced verbs revision for types timeout show-kind`)}
	for _, line := range strings.Fields(`get describe logs top explain events version api-resources api-versions
		rollout/status rollout/history auth/can-i config/current-context config/get-contexts`) {
		kubectl[line] = gets
	}
	// Other subcommands of yarn and pnpm are scripts of the package. yarn 1 and later versions have different ones.
	pnpm := map[string]*options{}
	for _, sub := range strings.Fields("ls list why root bin outdated audit view info") {
		pnpm[sub] = nodeSubs[sub]
	}
	yarn := map[string]*options{"why": why, "info": nodeSubs["info"], "bin": nodeSubs["bin"]}
	return map[string]map[string]*options{
		"npm": nodeSubs, "pnpm": pnpm, "yarn": yarn, "pip": pip, "pip3": pip,
		"uv": {"tree": {operand: none, need: []string{"--frozen", "--locked"}, long: set("depth frozen locked")},
			"pip/list": pip["list"],
			"pip/show": pip["show"], "pip/freeze": pip["freeze"]},
		"poetry": {"show": {operand: packageName, short: "toal", long: set("tree outdated latest all")},
			"check": {operand: none}},
		"cargo":   {"tree": {operand: none, short: "die:p:", long: set("duplicates depth invert edges package workspace")}},
		"rustup":  {"show": {operand: none}},
		"docker":  docker,
		"kubectl": kubectl, "docker-compose": compose,
		"git": {
			"remote":         {short: "v", long: set("verbose"), operand: none},
			"remote/get-url": {some: true, operand: plainName, long: set("all push")},
			"tag": {short: "ln:", need: []string{"-l", "--list"}, long: set(`list sort contains no-contains merged no-merged
				points-at column ignore-case`)},
			"config": {need: []string{"--get", "--get-all"}, some: true, max: 1, operand: plainSetting,
				long: set("get get-all global local show-origin show-scope")},
			"worktree/list": {short: "v", operand: none, long: set("porcelain verbose")},
			"grep": {short: "nilLhHcwvEFPGIoqpWaA:B:C:e:m:", numbers: true, long: set(`line-number ignore-case
				files-with-matches files-without-match count word-regexp invert-match extended-regexp fixed-strings
				perl-regexp only-matching quiet show-function function-context text cached untracked max-depth heading
				break and or not all-match color no-color column recursive name-only`)},
			"cat-file":   {short: "ptse"},
			"merge-base": {short: "a", long: set("all octopus is-ancestor fork-point independent")},
			"reflog": {short: "n:", numbers: true, long: set("all date format"), operand: func(s string) bool {
				return reflogs[s] || strings.ContainsAny(s, "/@~^") // other words may be subcommands
			}},
			"rev-list": {short: "n:", numbers: true, long: set(`count all since until no-merges merges first-parent
				left-right max-count reverse`)},
			"ls-tree": {short: "rtdlz", long: set("name-only full-tree long")}, "check-ignore": {short: "vqn"},
			"show-ref": {short: "sdq", long: set("heads tags")}, "count-objects": {short: "vH"},
			"ls-remote": {short: "htq", long: set("heads tags refs quiet exit-code symref"), operand: plainName},
		},
	}
}()

var reflogs = set("show list exists HEAD main master")

// plainSetting reports whether a key of git's settings is in a section without credentials.
func plainSetting(key string) bool {
	return settingForm.MatchString(key) && !settingSecret.MatchString(key)
}

var (
	settingForm = regexp.MustCompile(`(?i)^(advice|alias|blame|branch|color|column|commit|core|diff|extensions|fetch|gc|` +
		`gpg|grep|i18n|index|init|log|merge|pull|push|rebase|remote|rerere|safe|status|submodule|tag|user)\.[\w./-]+$`)
	settingSecret = regexp.MustCompile(`(?i)header|token|pass|cookie|prox|auth|cred`)
)

// listsProcesses reports whether ps has arguments with which it shows no variables of processes. ps reads arguments
// that are not valid a second time, as options of BSD; then e shows the variables.
func listsProcesses(args []word) bool {
	var all []string
	for _, w := range args {
		all = append(all, w.text)
	}
	return psForm.MatchString(strings.Join(all, " "))
}

var psForm = regexp.MustCompile(`^(-(e|ef|eF|el|A|Af|f|F|l)w{0,2}|[aufxwl]+|(-f )?-p [1-9]\d{0,6}|-fp [1-9]\d{0,6}|)$`)

// remoteSubs are the programs and subcommands among subLookers that print text from a server or a container. An
// empty list means all.
var remoteSubs = map[string][]string{"kubectl": {}, "docker": {"logs", "compose", "container", "history", "image"},
	"docker-compose": {"logs"},
	"npm":            {"view", "info", "audit", "outdated"}, "pnpm": {"view", "info", "audit", "outdated"},
	"yarn": {"info", "audit", "outdated"}, "git": {"ls-remote"}}

// subcommand returns the options of the subcommand with which args begin, and the arguments after it.
func subcommand(subs map[string]*options, args []word) (o *options, rest []word) {
	if len(args) > 1 && !args[0].wild && !args[1].wild {
		if o = subs[args[0].text+"/"+args[1].text]; o != nil {
			return o, args[2:]
		}
	}
	if len(args) > 0 && !args[0].wild {
		return subs[args[0].text], args[1:]
	}
	return nil, nil
}

// printsRemote reports whether a subcommand of subLookers prints text from a server.
func printsRemote(name string, args []word) bool {
	subs, ok := remoteSubs[name]
	if name == "docker" && slices.ContainsFunc(args, func(w word) bool { return fromImage.MatchString(w.text) }) {
		return true
	}
	return ok && len(args) > 0 && (len(subs) == 0 || slices.Contains(subs, args[0].text))
}

// fromImage matches arguments of docker that show text from an image.
var fromImage = regexp.MustCompile(`(?i)label|json|command|trunc`)

var (
	packageForm = regexp.MustCompile(`^(@[a-z0-9][a-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9._^~-]+)?$`)
	plainForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./-]*$`)
)

// packageName reports whether s is the name of a package, perhaps with a version, and not a URL or a path.
func packageName(s string) bool { return packageForm.MatchString(s) }

// pipName reports whether s is a value of pip's option --format.
func pipName(s string) bool { return s == "columns" || s == "freeze" || s == "json" }

// plainName reports whether s is a name of a remote, a branch or a tag, and not a URL, a refspec or a path elsewhere.
func plainName(s string) bool { return plainForm.MatchString(s) && !strings.Contains(s, "..") }

// acting are words in the names of programs and tasks that do more than to build and to test.
var acting = regexp.MustCompile(`(?i)deploy|publish|release|upload|migrate|install|prod(uction)?\b`)

// subBuilders are subcommands that build and test, and subcommands that download what the project's files name. Their
// arguments name no new dependency.
var subBuilders = func() map[string]map[string]*options {
	none := func(string) bool { return false }
	locked := func(need ...string) *options {
		return &options{operand: none, need: need, short: "s", long: set(`frozen-lockfile immutable frozen locked
			prefer-offline
			offline no-audit no-fund silent ignore-scripts all-extras all-groups no-dev dev check-cache no-progress`)}
	}
	goMod := &options{short: "", operand: none, long: set("v x json e compat diff go")}
	cargo := &options{short: "vqp:j:F:", long: set(`release verbose quiet package bin example features all-features
		no-default-features locked offline frozen no-run workspace open no-deps all-targets benches`)}
	dotnet := &options{short: "c:v:", operand: ownFile,
		long: set("configuration no-restore no-build verbosity filter nologo")}
	return map[string]map[string]*options{
		"go": {"mod/tidy": goMod, "mod/download": goMod, "mod/verify": goMod, "mod/graph": goMod, "mod/vendor": goMod,
			"mod/why":    {long: set("m vendor")},
			"tool/cover": {long: set("func"), operand: none, own: set("func")},
			"clean":      {long: set("testcache"), operand: none}},
		"npm":  {"ci": locked()},
		"pnpm": {"install": locked("--frozen-lockfile"), "i": locked("--frozen-lockfile")},
		"yarn": {"install": locked("--frozen-lockfile", "--immutable")},
		"bun": {"install": locked("--frozen-lockfile"),
			"test": {operand: own, short: "t:", long: set("bail timeout coverage")}},
		"uv": {"sync": locked("--frozen", "--locked"),
			"lock": {operand: none, need: []string{"--check"}, long: set("check")}},
		"poetry": {"install": {operand: none, short: "nqv", long: set(`no-root sync no-interaction only with without
			no-dev`)}},
		"cargo": {"bench": cargo, "doc": cargo, "run": cargo,
			"fetch": {operand: none, need: []string{"--locked"}, long: set("locked")}},
		"dotnet": {"build": dotnet, "test": dotnet, "format": dotnet},
		"swift": {"build": {operand: none, short: "cv"},
			"test": {operand: none, short: "v", long: set("filter parallel")}},
		"mix": {"test": {operand: own, long: set("trace failed stale")},
			"compile": {operand: none}, "format": {operand: ownFile}},
		"git": {"fetch": {short: "pqvt", operand: plainName, long: set(`prune all tags no-tags quiet verbose dry-run depth
			unshallow prune-tags`)}},
	}
}()

// mavenGoal reports whether a word is a phase or a goal of Maven that builds, tests or lists.
func mavenGoal(s string) bool { return mavenGoals[s] }

var mavenGoals = set(`clean validate compile test-compile test package verify integration-test dependency:tree
	dependency:analyze dependency:resolve spotless:check spotless:apply checkstyle:check`)

// mavenProperties may be set in a command line of Maven. Others may name code to load.
var mavenProperties = set(`skipTests skipITs test it.test maven.test.skip failIfNoTests
	surefire.failIfNoSpecifiedTests`)

// withoutProperties returns the arguments of Maven without the harmless properties. ok is false if there is another
// property.
func withoutProperties(args []word) (rest []word, ok bool) {
	for _, w := range args {
		property, is := strings.CutPrefix(w.text, "-D")
		if !is {
			rest = append(rest, w)
			continue
		}
		name, _, _ := strings.Cut(property, "=")
		if w.wild || !mavenProperties[name] {
			return nil, false
		}
	}
	return rest, true
}

// gradleTask reports whether a word is a task of Gradle that builds, tests or lists, perhaps of a project in the build.
func gradleTask(s string) bool { return gradleTasks[s[strings.LastIndexByte(s, ':')+1:]] }

var gradleTasks = set(`build test check assemble classes testClasses compileJava compileTestJava compileKotlin clean
	tasks
	dependencies projects lint ktlintCheck spotlessCheck spotlessApply detekt jacocoTestReport javadoc jar help`)

// environments are programs that run the program in the words after their subcommand, in the project's environment.
var environments = map[string]string{"uv": "run", "poetry": "run", "pipenv": "run", "pdm": "run",
	"hatch": "run", "bundle": "exec"}

// environmentProgram matches the path of a builder in the project's environment.
var environmentProgram = regexp.MustCompile(`^(?:\./)?(?:\.?venv/bin|node_modules/\.bin)/(python3?|pytest|mypy|ruff|` +
	`black|flake8|isort|coverage|tsc|eslint|prettier|vitest|jest|mocha|playwright)$`)

// wrapped returns the program that a wrapper runs, or the one that a path in the project's environment names.
func wrapped(name string, args []word) ([]word, bool) {
	if m := environmentProgram.FindStringSubmatch(name); m != nil {
		return append([]word{{text: m[1]}}, args...), true
	}
	sub, ok := environments[name]
	if !ok || len(args) < 2 || args[0].wild || args[0].text != sub || strings.HasPrefix(args[1].text, "-") {
		return nil, false
	}
	return args[1:], true
}

// runsOwn reports whether go run runs a package or files of the folder. The words after them are arguments of the
// program.
func runsOwn(args []word) bool {
	for len(args) > 0 && (args[0].text == "-race" || args[0].text == "-v" || args[0].text == "-trimpath") {
		args = args[1:]
	}
	if len(args) == 0 {
		return false
	}
	p := args[0].text
	return (p == "." || own(p) && (strings.HasPrefix(p, "./") || strings.HasSuffix(p, ".go") && plainName(p))) &&
		!strings.Contains(p, "@") && ordinary(args)
}

// ordinary reports whether a program of the folder may have these arguments.
func ordinary(args []word) bool {
	return !slices.ContainsFunc(args, func(w word) bool {
		name, _, _ := strings.Cut(w.text, "=")
		return w.wild || scriptOptions[name] || acting.MatchString(w.text)
	})
}

// loopback matches an address of this machine without a scheme, or with http or https. It has no user name, and nothing
// that curl expands.
var loopback = regexp.MustCompile(`^(https?://)?(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])` +
	`(:\d{1,5})?([/?][\w./?=&%+:,~-]*)?$`)

// Loopback reports whether s is an address of this machine, perhaps with a path.
func Loopback(s string) bool { return loopback.MatchString(s) }

// asksItself reports whether curl only gets pages of this machine, follows no redirect and writes no file.
func asksItself(args []word) bool {
	o := options{short: "sSfivIkH:m:", some: true, operand: Loopback, values: set("header max-time connect-timeout"),
		long: set(`silent
		show-error fail include verbose head compressed fail-with-body http1.1 http2 no-progress-meter`)}
	// The value of -H may be @ and a file, also as in -sH@file.
	file := func(w word) bool { return w.wild || strings.Contains(w.text, "@") }
	return o.permit(args) && !slices.ContainsFunc(args, file)
}

// moreBuilders are builders of other languages, and those that only write to /tmp.
var moreBuilders = func() map[string]*options {
	none := func(string) bool { return false }
	maven := &options{short: "qBoeXUnT:P:", some: true, operand: mavenGoal, long: set(`quiet batch-mode offline errors
		no-transfer-progress ntp fail-at-end fae also-make am update-snapshots`)}
	gradle := &options{short: "qisS", some: true, values: set("tests"), operand: gradleTask, long: set(`quiet info
		stacktrace
		offline parallel continue rerun-tasks no-daemon daemon console warn no-build-cache build-cache`)}
	return map[string]*options{
		"mvn": maven, "./mvnw": maven, "gradle": gradle, "./gradlew": gradle,
		"mocha": {short: "R:g:b", long: set("grep bail recursive exit timeout"), operand: own,
			checked: map[string]func(string) bool{"R": ownFile, "reporter": ownFile}},
		"tox": {short: "qve:p:", long: set("skip-missing-interpreters parallel notest"), operand: none},
		"nox": {short: "s:rRl", long: set("sessions reuse-existing-virtualenvs list"), operand: none},
		"rspec": {short: "f:e:", long: set("example fail-fast color"), operand: own,
			checked: map[string]func(string) bool{"f": plainName, "format": plainName}},
		"ctest": {short: "VQj:R:E:N", own: set("test-dir"), operand: none, long: set(`output-on-failure verbose rerun-failed
			parallel tests-regex show-only stop-on-failure`)},
		"cmake": {short: "j:v", own: set("build"), need: []string{"--build"}, operand: none,
			long: set("parallel config verbose")},
		"ninja":  {short: "j:vk:", operand: func(s string) bool { return targets[s] }},
		"mktemp": {short: "dq", operand: none},
		"rm": {short: "fv", some: true, operand: func(s string) bool {
			rest, ok := strings.CutPrefix(s, "/tmp/")
			return ok && own(rest) && rest == strings.Trim(rest, "./")
		}},
	}
}()

// moreModules are further modules of Python.
var moreModules = map[string]*options{
	"compileall": {short: "qf", operand: ownFile},
	"venv":       {operand: ownFile, long: set("upgrade-deps prompt")},
	"json.tool":  {max: 1, long: set("indent sort-keys no-indent compact")},
	"pip": {first: set("list show freeze check"), some: true, operand: packageName, short: "ol",
		long: set("outdated format local files")},
}
