package shell

import "testing"

func TestALineHasTheKindOfItsPrograms(t *testing.T) {
	for kind, lines := range map[string][]string{
		Look: {
			"ls -la src", "du -sh src | sort -rh | head -n 5", "sort -k2,2n -t: a b", "sort a | uniq -c",
			"uniq -f 1 a", "uniq -f1 a",
			"tree -L 2 -a src", "rg -n --hidden -g x pattern src", "date -u +%s", "date -d tomorrow",
			"date -Iseconds", "date",
			"file -b x", "diff -ru a b", "jq -r .name package.json", "less -N a", "/bin/cat a",
			"cat a 2>/dev/null | wc -l",
			"git log --oneline -5", "git diff --stat", "git show HEAD", "git blame -L 1,5 a", "git status -sb",
			"git ls-files --others", "cat /proc/cpuinfo", "cat src/proc/environ.go", "sha256sum a", "ls 2>&1",
		},
		Build: {
			"make", "make -j4 test", "make -j 4 all", "go test -race -run TestX ./...", "go build -o bin/x ./cmd/x",
			"go test -coverprofile=c.out ./...", "npm test", "npm run lint", "npx tsc --noEmit", "pytest -q tests",
			"ruff check .",
			"git add -A", "git commit -am 'mend it'", "git checkout -b new", "git switch main", "git branch -a",
			"git stash", "git add .github/workflows/x.yml",
			"git stash pop", "git restore --staged a", "cp a b", "cp a /tmp/b", "mkdir -p out", "python reproduce.py -v",
			"cargo test -- --nocapture", "gofmt -l .",
		},
		Other: {
			"sort -o .git/hooks/pre-commit vendor/notes.txt", "sort a -o b", "sort -ro b a", "sort -rob a",
			"sort --output=b a",
			"sort --outp=b a", "sort -S 1k --compress-program=./vendor/x.sh big.txt", "sort -T . a", "sort a | sort -ob",
			"uniq a CLAUDE.md", "uniq -c a b", "uniq -f 1 a b", "uniq -- a b", "uniq -- -c CLAUDE.md", "tree -o CLAUDE.md", "tree -Lo x",
			"tree -R -L 1 -H .",
			"rg --hostname-bin ./vendor/x.sh x", "rg --hostname-bin=./x x", "rg --pre ./x.sh y", "rg --pre=./x.sh y",
			"rg -z x",
			"date -s 2020-01-01", "date --set=x", "date 010203042026", "date -us x", "date -I 010203042026",
			"file -C -m x",
			"file -Cm x", "diff -l a b", "diff --paginate a b", "jq -n env", "jq -n '$ENV.TOKEN'", "jq -f x.jq a",
			"less +!sh a",
			"less -o x a", "less -Oa b", "more +x a", "git log --output=x", "git diff --ext-diff",
			"git show --textconv HEAD",
			"git shortlog --output x", "git blame --outpu=x a", "git log --show-signature", "git log --format=%GK",
			"git -c a=b log",
			"git grep -Osh x", "git --exec-path=x log", "find . -delete", "xxd a b", "env", "printenv", "ps e",
			"yq -i . a",
			"awk 'BEGIN{system(1)}'", "sed -n 1e x", "cat /proc/self/environ", "cat /proc/1/cmdline",
			"cd /proc && cat self/environ",
			"cat ../../proc/self/mem", "cat //proc/self/environ", "grep -f/proc/1/cmdline x",
			"cat proc/self/maps", "git log --format=%+GK", "git branch --format '%(signature)'",
			"ls 2>&1x", "ls >/dev/nullx", "ls 'a", "ls & x",
			"ls > x",
			"cat $X", "cat *", "ls; x", "",
			"make -f vendor/x.mk all", "make deploy", "make --file=x", "make -C x", "make -j deploy",
			"make --eval=x", "make -kfx",
			"git branch -D main", "git branch -d x", "git branch -f a b", "git branch -M a", "git restore .",
			"git restore -SW a", "git restore -- --staged a",
			"git restore --staged --worktree a", "git checkout -f main", "git checkout .", "git checkout -- a",
			"git checkout -B main",
			"git stash drop", "git stash -q clear", "git switch -f main", "git switch -C main", "git add -p",
			"git commit -S -m x",
			"git mv -f a b", "git mv a .git/hooks/pre-commit", "go vet -vettool=./evil", "go vet -vettool ./evil ./...",
			"go build -o /usr/bin/x", "go build -o ../x", "go build -o=.git/hooks/pre-commit",
			"go build -toolexec x", "go build --toolexec=x",
			"go test -exec x", "go build -ldflags=-extld=x", "go build -overlay x", "go list -toolexec x",
			"npm test --script-shell ./evil",
			"npm run deploy", "npm run", "npm --prefix x test", "npx --yes tsc", "npx eslint -c x.js",
			"eslint --rulesdir x .",
			"eslint --format ./x.js .", "prettier --plugin ./x a", "pytest -p x", "pytest --basetemp=x",
			"pytest -c x", "mypy --config-file x",
			"cargo --config x build", "cargo build --config x", "cp vendor/notes.txt .git/hooks/pre-commit",
			"cp x .claude/settings.json",
			"cp x /etc/cron.d/x", "mv a ../b", "cp -t /etc a", "touch /etc/x", "python /x.py", "python -c x",
			"node --version",
			"gofmt -cpuprofile=x a", "tsc --outDir x", "ruff clean", "staticcheck -debug.cpuprofile x",
		},
	} {
		for _, line := range lines {
			if got := Kind(line); got != kind {
				t.Errorf("%q is %q, want %q", line, got, kind)
			}
		}
	}
}

func TestFoldersThatAgentsStoreNotesInAreNotStarted(t *testing.T) {
	for path, want := range map[string]bool{".claude/projects/a/notes.md": false, ".claude/settings.json": true,
		".claude/projects/../settings.json": true, `.claude\plans\..\hooks\x.sh`: true, "src/claude/main.go": false} {
		if Started(path) != want {
			t.Errorf("Started(%q) is %v", path, !want)
		}
	}
}

func TestWhichLinesMayWrite(t *testing.T) {
	for _, line := range []string{"cat ~/.claude/CLAUDE.md", "grep -n \"a\\|b\" CLAUDE.md docs/*.md", "cat *.md",
		"cat \"$HOME/CLAUDE.md\"",
		"head -5 CLAUDE.md | wc -l", "grep x < CLAUDE.md", "git diff CLAUDE.md", "cat My\\ File CLAUDE.md",
		"cat CLAUDE.md 2>/dev/null",
		"echo \"a\\\"b\" CLAUDE.md", "sort ~/CLAUDE.md", "cat .env CLAUDE.md"} {
		if Writes(line) {
			t.Errorf("%q may write", line)
		}
	}
	for _, line := range []string{"sort -o CLAUDE.md x", "uniq a CLAUDE.md", "tree -o CLAUDE.md",
		"cp x CLAUDE.md", "cat x > CLAUDE.md",
		"cat \"\\\"\" > CLAUDE.md #\"", "sort $X CLAUDE.md", "sort \"$X\" CLAUDE.md", "uniq a*",
		"cat `x` CLAUDE.md", "cat $(x) CLAUDE.md",
		"cat \"$(x)\" CLAUDE.md", "cat <(x) CLAUDE.md", "cat x <>CLAUDE.md", "X=1 tee CLAUDE.md", "$X CLAUDE.md",
		"cat CLAUDE.md | tee x",
		"cat CLAUDE.md & x", "cat \"${x:=y}\" CLAUDE.md", "git checkout a -- CLAUDE.md", "rg --pre x y CLAUDE.md",
		"\"sort\" -'o' CLAUDE.md x",
		"sort \\-o CLAUDE.md x", "cat $'a' CLAUDE.md", "sort -t \"$X\" CLAUDE.md", "cat CLAUDE.md 2>&1x",
		"uniq -- -c CLAUDE.md", "cat CLAUDE.md #\"\ncp x CLAUDE.md #\"", "sort \"\\\n-o\" CLAUDE.md x",
		"echo ' -o CLAUDE.md'\nsort x$_", "git diff HEAD$_", "cat CLAUDE.md $[_]", "cat \"$[_]\" CLAUDE.md"} {
		if !Writes(line) {
			t.Errorf("%q writes nothing", line)
		}
	}
}

func FuzzKind(f *testing.F) {
	for _, line := range []string{"ls -la | sort -k2", "git log --oneline", "cat \"a\\\"b\" 'c", "\\",
		"- -- -\xff", "ls 2>&1", "uniq -f"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if Kind(line) == Look && Writes(line) {
			t.Errorf("%q looks and may write", line)
		}
	})
}
