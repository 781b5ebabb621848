package shell

import (
	"strings"
	"testing"
)

// kindLines are command lines by their kind.
var kindLines = map[string][]string{
	Look: {
		"ls -la src", "du -sh src | sort -rh | head -n 5", "sort -k2,2n -t: a b", "sort a | uniq -c",
		"uniq -f 1 a", "uniq -f1 a", "tree -L 2 -a src", "rg -n --hidden -g x pattern src", "date -u +%s",
		"date -d tomorrow", "date -Iseconds", "date", "file -b x", "diff -ru a b", "jq -r .name package.json",
		"less -N a", "/bin/cat a", "cat a 2>/dev/null | wc -l", "cat < a", "cat <<'EOF'\nit's (a\nEOF",
		"find . -name CLAUDE.md", "find src -type f -name '*.go' -not -path './vendor/*' | xargs grep -n make",
		"sed -n 1,20p a", "sed -n '/^func a/,/^}/p' a.go", "sed 's/a/b/' a", "sed -n '3p;5p' a", "sed 10q a",
		"awk '{print $1}' a", "awk -F: '/x/ {n++} END {print n}' a b", "which go", "command -v go",
		"test -f a && echo yes || echo no", "[ -d src ] && ls src", "if [ -f a ]; then cat a; fi",
		"(cd src && ls)", "wc -l *.go", "grep -rn make --include=*.go .", "cat src/*.md", "ls $HOME",
		"cat \"$PWD/a\"", "ls # the files", "# list (all) files: it's done\nls", "diff <(git show HEAD:a) a",
		"diff <(sort a) <(sort b | uniq)",
		"echo \"$(wc -l < a) lines\"", "git -C sub status", "git --no-pager diff", "timeout 5 grep -rn x .",
		"printf '%s\\n' \"$(ls)\"", "git log --oneline -5", "git diff --stat", "git show HEAD",
		"git blame -L 1,5 a", "git status -sb", "git ls-files --others", "cat /proc/cpuinfo",
		"cat src/proc/environ.go", "sha256sum a", "ls 2>&1", "gh pr checks 12", "gh run view 991 --log-failed",
		"go version", "which go && go version", "node --version", "gh issue view 3 --comments | head -20",
		"gh pr list --state open --json number,title", "gh pr view -R o/r 1",
		"gh issue view https://github.com/o/r/issues/1",
		"gh repo view github.com/o/r", "gh pr list -B release/v1.2", "jq .a.key a.json", "grep -n .key a.go", "gh pr view",
		"git --no-pager ls-remote origin", "git -C sub ls-remote origin", "git -C sub --no-pager grep -n x",
		"curl -sH 'Accept: text/plain' localhost:8080", "npm prefix", "npm explain x", "yarn why x", "pnpm why x",
		"git config --get user.name", "git config --get-all remote.origin.fetch", "git reflog", "git reflog show HEAD",
		"gh pr list --search 'is:open author:@me'", "gh issue list -S 'a@b:c'", "gh pr list --search='author:@me x:y'",
		"grep -rn event.key src", "rg e.key", "git grep -n item.key", "jq map.key a.json", "jq -r map.key a.json",
		"find . -name '*.js' | xargs grep -n event.key", "grep -rne event.key src", "ls | xargs grep x", "cat [!x]ey.txt",
		"cat ~+/a.txt",
		"ls certs/server.key", "test -f certs/server.key", "grep -n process.env src/a.js",
		"ps", "ps aux", "ps -ef", "ps -efww", "ps -p 12", "ps -fp 12", "uptime", "arch", "uv tree --locked",
		"kubectl get pod x -o 'jsonpath={.status.phase}'", "git log HEAD~1", "cat ~/a.txt",
		"sed -n '/^[[:space:]]*a/p' b", "sed -n '/[a-z]x/,/[^0]/p' b", "jq .importPath a.json",
		"jq -r '.a | .include' imports.json",
		"jq 'select(.a == \"import\")' a", "wc -l a --total=never", "awk '{argv = $1; print argv}' a",
		"cat testdata/server.key", "head -3 pkg/tls/testdata/certs/ca-key.pem",
	},
	Build: {
		"make", "make -j4 test", "make -j 4 all", "go test -race -run TestX ./...", "go build -o bin/x ./cmd/x",
		"go test -coverprofile=c.out ./...", "npm test", "npm run lint", "npx tsc --noEmit", "pytest -q tests",
		"ruff check .", "git add -A", "git commit -am 'mend it'", "git checkout -b new", "git switch main",
		"git branch -a", "git stash", "git add .github/workflows/x.yml", "git stash pop", "git restore --staged a",
		"cp a b", "cp a /tmp/b", "mkdir -p out", "python reproduce.py -v", "cargo test -- --nocapture",
		"gofmt -l .", "npm test -- x", "npm test -- src/a.test.js -t 'a name'", "yarn lint", "yarn test a",
		"pnpm run build", "pnpm test", "timeout 60 go test ./...", "timeout -k 5 2m make test",
		"time go test ./...", "go env GOFLAGS", "CI=1 npm test",
		"CGO_ENABLED=0 go build ./...", "python -m pytest tests/test_a.py::test_b -k c", "python3 -m unittest -v",
		"go test ./... 2>&1 | tee out.txt | tail", "go test ./... > /tmp/out.txt 2>&1",
		"echo '- Run make test.' >> CLAUDE.md", "cat > notes.md <<'EOF'\nUse `make`.\nEOF", "sed -i 's/a/b/' a.md",
		"sed -i.bak '3d' a", "git add src/*.go", "cd src && echo x > a", "git diff > a.patch",
		"git commit -m \"$(cat <<'EOF'\nMend it (don't ask, it's fine\n\nEOF\n)\"",
		"git commit -am \"$(cat <<'EOF'\na $(b) `c`\nEOF\n)\"", "git commit -F - <<'EOF'\nMend it.\nEOF",
		"mocha -R dot test", "mocha --reporter spec", "vitest --reporter=verbose", "npx vitest --reporter verbose run",
		"vitest --reporter=./tools/r.mjs", "pytest --junitxml=out.xml", "python -m venv .venv", "python3 -m compileall src",
		"tsc -b packages/a", "uv run tee notes.md", "uv run sed -i s/a/b/ x", "cd sub && uv run pytest", "cd sub && npm ci",
		"cd $(git rev-parse --show-toplevel) && go test ./...", "cd \"$(git rev-parse --show-toplevel)\" && make test",
		"cd /work/project && cp a b", "cd ~/project && mkdir -p a", "cd sub && make && cd .. && cp a b",
		"set -euo pipefail; go test ./... | tail -5", "set -o pipefail\nmake", "export CI=1 NO_COLOR=1; make", "CI=1; make",
		"GOOS=linux GOARCH=amd64 go build ./...", ".venv/bin/python -m pytest -q", "./node_modules/.bin/tsc --noEmit",
		"coverage run -m pytest", "npx playwright test", "cargo nextest run --workspace", "isort --check .",
		"goimports -l .",
		"# build\nmake test # all of them", "npx --no-install eslint .", "FOO=bar go build ./...",
		"export FOO=1; go test ./...", "LOG_LEVEL=debug pytest",
		"UPDATE_GOLDEN=1 go test ./pkg/a", "OUT=out/a-1.2+b make", "VERSION='1 2' make",
		"source .venv/bin/activate && pytest -q",
		". ./venv/bin/activate; python3 -m pytest", "cd sub && source env/bin/activate && make test",
		"sed -i s/a/b/ web/x.md view/a.md src/render/server.ts 'my docs/w.md'", "FILE=a,b/c make", "git merge cafes",
		"cp docs/*.md out/", "mv docs/[a-c]*.md out", "sed -i s/a/b/ ./*.md", "sed -i s/a/b/ docs/*.md",
		"gofmt -l ./*.go src/*.go",
		"gofmt -w src/*.go",
		"python3 -m unittest discover -s tests", "python3 -m unittest discover -s tests -p 'test_*.py' -t . -v",
		"python -m unittest discover --start-directory=tests", "git merge feature",
		"git merge --no-ff -m 'a b' fix/duration",
		"git merge --ff-only feature/x", "git rebase main", "git rebase --autostash main", "cargo run -- --help",
		"rspec -f documentation", "mix format lib/a.ex", "dotnet build a.csproj",
	},
	Other: {
		// Options with = before the value, which Python and yargs leave out
		"python3 -m unittest discover -s=/tmp/x", "python3 -m unittest discover -t=.. -s=tests",
		"mocha -R=/tmp/x.js test", "mocha -bR=/tmp/x.js test",
		// Other machines
		"cat < /dev/tcp/localhost/80", "go test < /dev/udp/localhost/80", "diff <(cat < /dev/tcp/localhost/80) a",
		"awk 1 /inet/tcp/0/localhost/80", "awk '{print}' a /inet4/tcp/0/localhost/80",
		// Files that the line does not name, or names as text
		"awk 'BEGIN {getline l < \"/tmp/x\"; print l}'", "awk 'BEGIN {while ((getline l < f) == 1) print l}' f=x",
		"awk 'BEGIN {ARGV[1] = \".e\" \"nv\"; ARGC = 2} {print}'", "awk 'BEGIN {print SYMTAB[\"x\"]}'",
		"jq -n 'import \"x\" as $d {search: \"/tmp\"}; $d'", "jq -n 'include \"x\" {search: \"/tmp\"}; x'",
		"jq -n '# x\nimport \"x\" as $d; $d'", "jq -n 'import\"x\" as $d; $d'", "jq 'module {}; import \"x\" as $d; $d' a",
		"wc --files0-from=/tmp/x", "wc -l --files0 /tmp/x", "du --files0-from=/tmp/x", "strings @/tmp/x",
		"ls | xargs wc --files0-from=/tmp/x",
		// Variables with several names, and names of files that steer programs
		"OUT='a /etc/x' make", "FILE=a,/etc/x make", "FILE='a ../x' make", "OUT=.git/hooks/pre-commit make",
		"export OUT=.claude/settings.json; make", "DIR=x/.github make", "OUT=CLAUDE.md make docs", "OUT=memory/a make",
		"FILE=.env make test", "FILE=certs/a.key make test", "export FILE='a .env'; make",
		// Scripts of sed as macOS reads them
		"sed -i p w.git/hooks/pre-commit a", "sed -i p 'w .claude/settings.json' a", "sed -i p w/etc/x a",
		"sed -i p '1,$w.envrc' a", "sed -i p 'sxaxbxw.git/x' a", "sed -i p 'p;wx' a", "sed -i p 'wCLAUDE.md' a",
		"sed -i.md s/a/b/ CLAUDE", "sed -ni.md p ./AGENTS", "sed --in-place=.md p a sub/CLAUDE", "sed -i ints p .gooseh",
		"sed -ihub p .git", "sed -i.json p .mcp", "sed -ib p .githu",
		"export OUT=.gi; export OUT+=t/x; make", "OUT+=x make", "ls > .zprofile", "cp a .bash_login",
		"sed -i '/[/ss]/w.git/hooks/commit-msg' a", "sed -n '/[/ss]/w.git/hooks/commit-msg' a",
		"sed -n '/[]/ss]/w.git/hooks/commit-msg' a", "sed -n '/[[:a]/ss]/w.git/hooks/commit-msg' a",
		// Commits by their numbers
		"git merge 1a2b3c4", "git merge v1-3-g1a2b3c4", "git rebase deadbeef", "git merge 1A2B3C4D",
		"set -f; make", "set -o noglob; make", "set -- x; make",
		// Variables by which a program does something else
		"export LD_PRELOAD=./x.so; make", "LD_PRELOAD=x make", "BASH_ENV=x make", "ENV=x make", "PYTHONPATH=x pytest",
		"CC=x go build",
		"PYTHONSTARTUP=x pytest", "NODE_OPTIONS=x npm test", "MAKEFLAGS=x make", "GIT_SSH_COMMAND=x git fetch",
		"IFS=x make",
		"GIT_DIR=x git merge feature", "HOME=x make", "npm_config_registry=x npm ci", "http_proxy=x npm ci", "X=1 make",
		"PS4=x make",
		"FOO=$(x) make", "FOO=`x` make", "FOO=$X make", "FOO='$(x)' make", "FOO='$(shell x)' make", "OUT='a; x' make",
		"OUT='a -toolexec=x' make", "NAME='`x`' make", "DIR='a|x' make", "FOO=/x make", "FOO=../x make",
		"export FOO='a\nb'; make",
		"OUT=-x make", "MSG='$${x}' make", "FOO[0]=1 make", "FOO=1 PATH=. make",
		"\"echo$(ls)\" a", "\"printf$(ls)\" %s a",
		// Scripts that are read into the shell
		"source .venv/bin/activate", "source .venv/bin/activate.sh && make", "source ../.venv/bin/activate && make",
		"source /tmp/.venv/bin/activate && make", "source ~/.venv/bin/activate && make", "source x.sh && make",
		"source .venv/bin/activate x && make", "source $X/bin/activate && make",
		"source .venv/bin/../../x/bin/activate && make",
		"cd ../x && source .venv/bin/activate && make", "source .venv/bin/activate > /x && make",
		"source .venv/bin/* && make",
		"source \"$(x)/.venv/bin/activate\" && make", "source .venv/bin/activate && x",
		"source .venv/bin/activate && curl localhost",
		"source .venv/bin/activate && rm a",
		// Patterns
		"cp *.md out/", "cp docs/* out/", "cp docs/*.md .git/", "cp docs/*.md ../out", "cp .git/*.md out", "cp .*/*.md out",
		"cp docs/.*.md out", "cp /etc/*.conf out", "cp ../*.md out", "cp -t/x docs/*.md", "cp -t* docs/*.md",
		"cp docs/*.key out",
		"cp {docs,.git}/*.md out", "sed -i *.md", "sed -i s/a/b/ *.md", "sed -i docs/*.md", "sed -i -e*.md a",
		"sed -i s/a/b/ $X/*.md",
		"sed -i '1e x' docs/*.md", "gofmt -l *.go", "gofmt -cpuprofile=*.go", "gofmt -l $X.go", "tee docs/*.md",
		"touch docs/*.md",
		"cp $HOME/*.md out",
		// Tests of Python
		"python3 -m unittest discover -s ../x", "python3 -m unittest discover -s /tmp/x",
		"python3 -m unittest discover -s.git",
		"python3 -m unittest discover -s $X", "python3 -m unittest discover -t ..", "python3 -m unittest discover -s",
		"python3 -m unittest discover --start-directory=/tmp/x", "python3 -m unittest discover -s -x",
		// Merges
		"git merge", "git rebase", "git merge origin/main", "git merge upstream/main", "git merge origin",
		"git merge Origin/main",
		"git merge FETCH_HEAD", "git merge fork/main", "git merge @{u}", "git merge refs/remotes/origin/main",
		"git merge a..b",
		"git merge -s x feature", "git merge --strategy=x feature", "git merge -X theirs feature",
		"git merge -F .env feature",
		"git merge --abort", "git merge $X", "git merge -c a", "git rebase -i main", "git rebase -x make main",
		"git rebase --exec=x main",
		"git rebase --exec x main", "git rebase --onto a b", "git rebase origin/main", "git -c core.editor=x merge feature",
		"git rebase --root", "git rebase --continue", "git merge --edit feature", "git merge -S feature", "git pull",
		"export PATH=.; make", "export DIR=~/x; make",
		"DIR=/x make", "DIR=../x make", "export -n CI=1; make", "export CI; make", "export CI=$(x); make",
		"export GOFLAGS=x; make",
		"set -e", "export CI=1", "echo \"$(<a)\"", "< a", "date \"+$(<a)\" > b", ".venv/bin/cp a b",
		".venv/bin/python -c x", "cd ../x && .venv/bin/pytest", "coverage run -m http.server",
		"playwright test --reporter=/tmp/x.js", "goimports -w -cpuprofile x a",
		"ls # ; rm x", "ls # ~/x", "# a; b\nls", "# $(a)\nls", "# *(e:a:)\nls", "cd sub # x\nls", "# it's\necho '; rm x; '",
		"cat $\"x\"", "ls 12>/dev/null", "ls {x}>/dev/null",
		"sort -o .git/hooks/pre-commit vendor/notes.txt", "sort a -o b", "sort -ro b a", "sort -rob a",
		"sort --output=b a", "sort --outp=b a", "sort -S 1k --compress-program=./vendor/x.sh big.txt",
		"sort -T . a", "sort a | sort -ob", "uniq a CLAUDE.md", "uniq -c a b", "uniq -f 1 a b", "uniq -- a b",
		"uniq -- -c CLAUDE.md", "tree -o CLAUDE.md", "tree -Lo x", "tree -R -L 1 -H .",
		"rg --hostname-bin ./vendor/x.sh x", "rg --hostname-bin=./x x", "rg --pre ./x.sh y", "rg --pre=./x.sh y",
		"rg -z x", "date -s 2020-01-01", "date --set=x", "date 010203042026", "date -us x", "date -I 010203042026",
		"file -C -m x", "file -Cm x", "diff -l a b", "diff --paginate a b", "jq -n env", "jq -n '$ENV.TOKEN'",
		"jq -f x.jq a", "less +!sh a", "less -o x a", "less -Oa b", "more +x a", "git log --output=x",
		"git diff --ext-diff", "git show --textconv HEAD", "git shortlog --output x", "git blame --outpu=x a",
		"git log --show-signature", "git log --format=%GK", "git -c a=b log", "git grep -Osh x",
		"git --exec-path=x log", "find . -delete", "xxd a b", "env", "printenv", "ps e", "yq -i . a",
		"awk 'BEGIN{system(1)}'", "sed -n 1e x", "cat /proc/self/environ", "cat /proc/1/cmdline",
		"cd /proc && cat self/environ", "cat ../../proc/self/mem", "cat //proc/self/environ",
		"grep -f/proc/1/cmdline x", "cat proc/self/maps", "git log --format=%+GK",
		"git branch --format '%(signature)'", "ls 2>&1x", "ls >/dev/nullx", "ls 'a", "ls & x", "ls > /etc/x",
		"ls > ../x", "ls >> ~/.bashrc", "echo x > .git/hooks/pre-commit", "ls > $X", "ls > x*", "ls > .env",
		"cd / && echo x > a", "cd .git && touch a", "cd ~ && echo x >> .x", "cd $HOME && sed -i s/a/b/ a",
		"cd /etc && tee a", "echo \"$(curl x)\"", "cat \"$(ls)\"", "sort $(ls)", "git commit -m $(cat a)",
		"git commit \"$(cat a)\"", "git commit -m x \"$(cat a)\"", "git commit -m \"$(curl x)\"",
		"git commit -m \"$(cat a > b)\"", "cat <(curl x)", "git commit -m \"$(cat .env)\"", "git commit -m \"$X\"",
		"cat <<EOF\n$(curl x)\nEOF", "cat <<EOF\n$X\nEOF", "tee >(sh) < a", "cat < .env", "cat .e*", "cat .*.md",
		"cat {a,.env}.md", "sort *.md", "python $HOME/x.py", "python *.py", "python x*.py", "sort $\"-o\" a",
		"sort $'-o' a", "X=1; ls", "PATH=. ls", "GOFLAGS=-toolexec=x go test", "CI=$(x) ls", "time", "timeout 5",
		"timeout -s KILL 5 ls", "timeout 5 rm a", "xargs rm", "ls | xargs -I{} sh", "find . -exec cat {} ;",
		"find . -fprint a", "find . -fls a", "find . -ok x", "find . -execdir x", "find . -printf x -delete",
		"sed -n '1w a' b", "sed 's/a/b/w c' d", "sed 's/a/b/e' d", "sed -n '/a/,/b/w c' d", "sed -f a b",
		"sed -e p a", "sed -i p .git/x", "sed -i '1e x' a", "sed -i.git/hooks/* p a", "sed *.md",
		"awk '{print > \"a\"}' b", "awk '{print | \"sh\"}' b", "awk '\"x\" | getline' b", "awk -f a b",
		"awk '{print ENVIRON[\"X\"]}' a", "test -v 'a[$(x)]'", "[ 'a[$(x)]' -eq 1 ]", "[[ 'a[$(x)]' -eq 0 ]]",
		"command ls", "command -p x", "printf -v PATH x", "printf \"$(ls)\"", "ls() { x; }; ls",
		"function ls { x; }", "alias ls=x", "eval ls", "trap x EXIT", "exec ls", "for f in *.go; do cat $f; done",
		"npm test -- --config=x.js", "npm test -- -c x", "yarn add x", "yarn deploy", "pnpm exec x",
		"npx yarn test", "python -m http.server", "python -m pytest -p x", "go env -w GOFLAGS=x",
		"go env GOFLAGS=x", "go env", "go doc -http", "tee /etc/x", "tee .git/x", "git -C .git log",
		"git -C a -c b=c log", "git -C a push", "cat a\rb", "ls | tee $X", "| ls", "cat a <> b", "ls 3> ../x",
		"echo x >| /x", "echo x &> ../x", "echo x >& ~/x", "ls > \"$X\"", "(ls) > /x", "{ ls; } > /x",
		"if true; then rm a; fi", "ls || rm a", "ls && (rm a)", "echo \"$(echo \"$(rm a)\")\"", "cat $X", "cat *",
		"ls; x", "", "make -f vendor/x.mk all", "make deploy", "make --file=x", "make -C x", "make -j deploy",
		"make --eval=x", "make -kfx", "git branch -D main", "git branch -d x", "git branch -f a b",
		"git branch -M a", "git restore .", "git restore -SW a", "git restore -- --staged a",
		"git restore --staged --worktree a", "git checkout -f main", "git checkout .", "git checkout -- a",
		"git checkout -B main", "git stash drop", "git stash -q clear", "git switch -f main", "git switch -C main",
		"git add -p", "git commit -S -m x", "git mv -f a b", "git mv a .git/hooks/pre-commit",
		"go vet -vettool=./evil", "go vet -vettool ./evil ./...", "go build -o /usr/bin/x", "go build -o ../x",
		"go build -o=.git/hooks/pre-commit", "go build -toolexec x", "go build --toolexec=x", "go test -exec x",
		"go build -ldflags=-extld=x", "go build -overlay x", "go list -toolexec x",
		"npm test --script-shell ./evil", "npm run deploy", "npm run", "npm --prefix x test", "npx --yes tsc",
		"npx --no-install", "npx --no-install cowsay", "npx --no-install -y eslint",
		"npx eslint -c x.js", "eslint --rulesdir x .", "eslint --format ./x.js .", "prettier --plugin ./x a",
		"pytest -p x", "pytest --basetemp=x", "pytest -c x", "mypy --config-file x", "cargo --config x build",
		"cargo build --config x", "cp vendor/notes.txt .git/hooks/pre-commit", "cp x .claude/settings.json",
		"cp x /etc/cron.d/x", "mv a ../b", "cp -t /etc a", "touch /etc/x", "python /x.py", "python -c x",
		"./node --version", "node --version x", "deploy --version", "gofmt -cpuprofile=x a", "tsc --outDir x", "ruff clean",
		"staticcheck -debug.cpuprofile x", "gh pr view 1 --web", "gh pr view -w", "gh pr view 1 --jq env", "gh api x",
		"gh pr view 1 > a.md", "gh pr diff 1 | tee a", "gh issue view 1 && make", "gh pr", "gh pr checkout 1",
		"gh run view 1 | sh", "git commit -m \"$(gh issue view 1)\"", "diff <(gh pr diff 1) a", "gh pr view $X",
		"gh pr merge 1", "gh pr view -R evil.example/o/r 1", "gh pr view -Revil.example/o/r 1",
		"gh issue list --repo=evil.example/o/r",
		"gh pr view https://evil.example/o/r/pull/1", "gh repo view evil.example/o/r", "gh repo view git@evil.example:o/r",
		"gh pr view https://github.com@evil.example/o/r/pull/1", "cat tls/server.key", "cat terraform.tfstate",
		"cat testdata/../server.key",
		"cat /etc/testdata/server.key", "cat ~/testdata/server.key", "cat testdata/id_rsa", "cat testdata.key",
		"base64 a.pfx",
		"head -3 ./prod.key", "jq .x terraform.tfstate",
		// Options before a subcommand
		"git --no-pager ls-remote origin > a.txt", "git -C . ls-remote origin | tee CLAUDE.md",
		"git -C /tmp/x ls-remote origin", "git -C ../x grep a", "git --no-pager -C ~/x config --get user.name",
		"git -C sub fetch", "cd /tmp/x && git ls-remote origin", "cd ~ && git --no-pager ls-remote origin",
		// Files that curl sends
		"curl -sH @/etc/passwd localhost:8080", "curl -sSfH@x localhost:8080", "curl -vH \"@x\" localhost:8080",
		"curl --header @x localhost:8080", "curl --header=@x localhost:8080",
		// Code from outside of the folder, and scripts of the package under other names
		"mocha -R /tmp/evil.js", "mocha -bR/tmp/evil.js", "mocha --reporter=../evil.js", "mocha --reporter /tmp/evil.js",
		"vitest --reporter=/tmp/evil.mjs", "npx vitest --reporter ~/evil.mjs", "vitest --reporter=.claude/x.mjs",
		"vitest --reporter=data:text/javascript,x", "rspec -f /tmp/x", "yarn prefix", "yarn root", "yarn view x",
		"yarn explain x", "yarn ls", "yarn list", "yarn outdated", "yarn audit", "pnpm prefix", "pnpm explain x",
		"tsc -b /tmp/evil", "tsc @args.txt", "pytest @args.txt", "python -m pytest @args.txt", "mypy @args.txt",
		"dotnet build @args.rsp", "arch -arm64 sh x", "arch rm x", "whoami x", "uv tree",
		// Credentials
		"git config --get-all http.extraheader", "git config --get http.https://github.com/.extraheader",
		"git config --get credential.helper", "git config --get remote.origin.proxy", "git config --get github.oauth-token",
		"git config --get url.https://x@example.org/.insteadof", "ps -ue", "ps -u e", "ps -e -u nobody9", "ps -e -p 0",
		"kubectl get pod x -o jsonpath-file=a", "kubectl get pod -o=go-template-file=a", "cat i18n.key",
		"grep x server.key",
		"grep -e x server.key", "grep -ex server.key", "grep -f x server.key", "grep --regexp=x server.key",
		"rg --files server.key", "grep -A 1 x server.key", "grep -nf server.key a",
		"ls ~/.ssh/a.key", "ls .env.key", "ls a.key && cat a.key", "ls certs/a.key | xargs cat",
		"cat ~+/a.key", "cat $PWD/a.key", "cat 'a b/a.key'", "cat ~-/a.txt", "cat < ~-/key.txt", "cat ~1/key.txt",
		"cat ~+1/a.txt", "grep -f=~-/a x",
		// Places with settings, and folders elsewhere
		"python -m venv .git/x", "python -m venv .claude", "python3 -m compileall .git", "mix format .git/x",
		"pytest --junitxml=.git/x", "pytest --junitxml=/etc/x", "pytest --junit-xml ../x", "cd /etc && uv run tee hosts",
		"cd $HOME && uv run tee notes.txt", "cd /etc && uv run sed -i s/a/b/ hosts", "poetry run sed -i'/etc/*' s/a/b/ x",
		"cd ~/evil && npm ci", "cd /tmp/evil && ./gradlew test", "cd ../other && go run .", "cd /etc && python -m venv x",
		"cd /etc && uv run ls", "cd /etc && cp hosts x", "cd /usr/local/bin && touch a", "cd / && mkdir a", "cd && cp a b",
		"cd ~ && mv a b", "cd $HOME && git commit -m x", "cd /etc; go build", "cd $(cat a) && go test ./...",
		"cd $(git rev-parse --show-toplevel)/.. && cp a b", "cd $(git rev-parse --show-toplevel --git-dir) && make",
		"cd \"$(git rev-parse --show-toplevel)\" && go run .", "uv run curl localhost", "uv run uv run ls",
		"uv run git ls-remote origin",
		"cargo run deploy", "cargo run --bin deploy", "git reflog write x", "git reflog delete x",
	},
}

func TestALineHasTheKindOfItsPrograms(t *testing.T) {
	for kind, lines := range kindLines {
		for _, line := range lines {
			if got := Kind(line); got != kind {
				t.Errorf("%q is %q, want %q", line, got, kind)
			}
		}
	}
}

func TestWhatAServerHasIsRemote(t *testing.T) {
	for line, want := range map[string]bool{"gh pr view 1": true, "ls && gh issue list": true, "ls": false,
		"git --no-pager ls-remote origin": true, "git -C . ls-remote origin": true, "git -C . grep x": false,
		"docker history x": true, "docker ps": false, "docker ps --format '{{.Labels}}'": true,
		"gh api x":      false,
		"go test ./...": false, "": false} {
		if Remote(line) != want {
			t.Errorf("Remote(%q) is %v", line, !want)
		}
	}
}

func TestOneProgramWithItsWords(t *testing.T) {
	for line, want := range map[string]string{
		"git push -u origin fix/a":             "git push -u origin fix/a",
		`gh pr create --title "a b" --body ''`: "gh pr create --title a b --body ",
		"git push 2>&1":                        "git push", "git push > /dev/null": "git push",
		"gh pr create --body \"$(cat <<'EOF'\na $(b)\nEOF\n)\"": "gh pr create --body " + Text,
		// A shell does more with these lines than to run one program with the words of the line. So Program refuses
		// them.
		"git push && rm a": "", "git push; ls": "", "git push | tee a": "", "git push &": "", "git push > a": "",
		"A=1 git push": "",
		"git push $X":  "", "git push \"$(cat a)\"": "", "gh pr create --body \"$(cat .env)\"": "", "git push *": "",
		"gh pr create --body \"$(cat <<EOF\n$X\nEOF\n)\"": "", "git push\nrm a": "", "(git push)": "", "": "",
		"gh pr create --body \"$(cat a <<'EOF'\nEOF\n)\"": "", "if git push; then rm a; fi": "", "$(x) push": "",
		"git push `x`": "", "git push <(ls)": "", "git push < a": "", "! git push": "", "git push $'a'": "",
	} {
		words, ok := Program(line)
		if got := strings.Join(words, " "); got != want || ok != (want != "") {
			t.Errorf("%q is %q, want %q", line, got, want)
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
		any := func(string) bool { return true }
		none := func(string) []string { return nil }
		if Kind(line) == Look && len(Sinks(line, Files{any, any, none})) > 0 {
			t.Errorf("%q looks and may write", line)
		}
	})
}
