package text

import (
	"strings"
	"testing"
)

const english = `The quarterly review meeting has been moved to Thursday afternoon because two members of the team are travelling.
Please bring the revised budget and a short list of open questions, and remember that the finance department needs the final numbers
before the end of this month. Maria Jensen (maria.jensen@example.com) will send the agenda tomorrow; the draft is already available at
https://intranet.example.com/meetings/q3/agenda?rev=2 and comments are welcome. We agreed last week that the new supplier will deliver
the first samples in October, so the warehouse should prepare enough space near the loading dock. If anything changes, call the front
desk at +1 (555) 234-5678. Several customers asked whether the discount applies to annual plans as well; the answer is yes, but only
for contracts that are signed before the promotion ends. The travel policy was updated too: hotels above the limit need approval from
a manager, and receipts must be uploaded within ten days after the trip. Thank you all for the good work so far.`

const toolOutput = `{"status":"ok","items":[{"id":"a81bc81b-dead-4e5d-abff-90865d1e13b1","name":"Quarterly report","path":"/srv/share/reports/2024/q3.pdf","owner":"maria.jensen@example.com","size":482113,"modified":"2024-10-03T09:12:44Z","tags":["finance","internal"]},{"id":"7c9e6679-7425-40de-944b-e07fc1f90ae7","name":"Supplier contract","path":"/srv/share/legal/contract-0042.docx","owner":"legal@example.com","size":90122,"modified":"2024-09-28T16:40:02Z","tags":["legal"],"preview":"This agreement is made between the parties\nand takes effect on signature.\nPayment to DE89 3704 0044 0532 0130 00 within 30 days."},{"id":"16fd2706-8baf-433b-82eb-8c7fada847da","name":"Build log of the main branch","path":"/var/log/build/1182.log","owner":"ci@example.com","size":1203988,"modified":"2024-10-04T02:00:10Z","tags":["ci"],"preview":"fetching https://proxy.example.org/mod/x/v1.2.3.zip\ncompiled 214 packages in 31.2s\nall tests passed"}],"total":3,"truncated":true,"next":"https://api.example.com/v2/files?cursor=eyJvIjoyMDB9&limit=3"}`

const unicodeText = `Die Prüfung der Unterlagen ist abgeschlossen, die Änderungen wurden übernommen. Größere Abweichungen gab es nicht; für Rückfragen steht das Büro zur Verfügung. Проверка документов завершена, изменения внесены. Крупных отклонений не обнаружено, по вопросам обращайтесь в бюро. 書類の確認は完了し、変更が反映されました。大きな差異はありませんでした。ご質問は事務所までお問い合わせください。La révision des documents est terminée et les modifications ont été prises en compte ; aucun écart important n'a été constaté. Η εξέταση των εγγράφων ολοκληρώθηκε και οι αλλαγές ενσωματώθηκαν. “Ｆｕｌｌｗｉｄｔｈ” and 𝐛𝐨𝐥𝐝 text, an emoji 👩‍💻 and a hidden word: pay` + "\u200b" + `ment.`

func kib(s string) string { return strings.ToValidUTF8((s + " " + s)[:1024], "") }

func BenchmarkAnalyze(b *testing.B) {
	for _, c := range []struct{ name, content string }{
		{"english", kib(english)}, {"json", kib(toolOutput)}, {"unicode", kib(unicodeText)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.content)))
			b.ReportAllocs()
			for b.Loop() {
				Analyze(c.content)
			}
		})
	}
}

// One time budget of the pipeline covers views and carriers together.
func BenchmarkViewsAndCarriers(b *testing.B) {
	content := kib(english)
	f := Analyze(content)
	var set carrierSet
	b.ReportAllocs()
	for b.Loop() {
		f.Views(content)
		set.reset()
		var s scanner
		s.reset(content, "", true)
		s.scan(&set, Hidden{})
	}
}

func BenchmarkNormalize(b *testing.B) {
	for _, c := range []struct{ name, content string }{{"english", kib(english)}, {"unicode", kib(unicodeText)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Normalize(c.content)
			}
		})
	}
}

func BenchmarkAnalyzeLarge(b *testing.B) {
	for _, h := range hostile() {
		b.Run(h.name, func(b *testing.B) {
			b.SetBytes(int64(len(h.content)))
			for b.Loop() {
				Analyze(h.content)
			}
		})
	}
}
