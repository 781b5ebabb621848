package shell

import "testing"

func TestNamesOfFilesWithSecrets(t *testing.T) {
	for _, name := range []string{"/home/ana/.ssh/id_rsa", "~/.ssh/id_ed25519", "id_rsa", ".netrc", "/etc/shadow",
		"/root/../etc/gshadow", "~/.aws/credentials", "app/.env", ".env.production", `C:\Users\ana\.aws\credentials`,
		"file:///home/ana/.netrc", "/proc/self/environ", "/proc/12/environ", "config/credentials.json", "k8s/secrets.yaml",
		"~/.bash_history", "server.key", "tls/server.key", "terraform.tfstate",
		"infra/terraform.tfstate.backup", "cert.pfx", "a.p12", "release.jks", "~/.npmrc", "~/.pypirc", "prod.env",
		"/home/ana/.ssh", "~/.config/gcloud/application_default_credentials.json", "id_rsa.bak", "testdata/../server.key",
		"testdata/id_rsa", "testdata/.env", "a/testdata.key"} {
		if !SecretFile(name) {
			t.Errorf("%s: no secret", name)
		}
	}
	for _, name := range []string{"", "README.md", "src/secret_manager.go", ".env.example", "~/.ssh/id_rsa.pub",
		"/home/ana/.ssh/known_hosts", "docs/credentials.md", "/etc/hosts", "/proc/cpuinfo", "environment.ts",
		"https://site.example/.env", "history.txt", "the secret of the garden", "proc/notes.txt", "customers.csv",
		"cert.pem", "ca.crt", "keys.md", ".key", "docs/key.md", "i18n/keys.json", "environment.env.ts", "main.tf", "testdata/server.key",
		"/work/a/testdata/tls/client-key.pem"} {
		if SecretFile(name) {
			t.Errorf("%s: a secret", name)
		}
	}
}
