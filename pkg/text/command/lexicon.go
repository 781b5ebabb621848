package command

import "strings"

// class is the role that a word plays in an order.
type class uint8

const (
	other       class = iota
	verb              // a verb of action, in its base form
	you               // the reader
	me                // the writer
	polite            // please
	negation          // not, never
	modal             // must, should
	article           // the, any
	conjunction       // and, then, before
	preposition       // to, from
	readerName        // assistant, agent, model
	order             // instruction, task, prompt
	prior             // previous, above
	override          // a verb that cancels orders
	reply             // the reader's output
	secret            // valuable secrets
	ident             // a name of a program, tool or file
	address           // an e-mail address or URL
	number
	begin // before the first word
)

// classes maps words to classes. The lists are general English and were written without looking at a data set. So the
// weight of a class also applies to words that occur in no data set. A word in several lists has the class of the last
// one.
var classes = func() (t classTable) {
	for _, list := range []struct {
		class class
		words string
	}{
		{verb, `accept access activate add adjust advise alert allow analyze announce answer append apply approve arrange ask
assess assign assist attach authorize avoid back backup begin block book bring browse build buy call cancel change
charge check choose clean clear click close code collect combine come compare compile complete compose comply compress
compute conduct confirm connect consider contact continue convert copy correct count create cut deactivate decide
declare decrease delay delete deliver demonstrate deny deploy deposit describe design detect determine develop direct
disable disclose discuss display do donate download draft drop edit elaborate email emphasize enable encode encourage
encrypt end enhance ensure enter erase establish evaluate examine execute expand explain export express extract fetch
file fill filter find finish fix flag focus follow format forward generate get give go grant guide handle help hide
highlight hire identify illustrate implement import improve include increase inform initiate insert inspect install
integrate introduce invest investigate invite issue join keep launch learn leave let limit link list load locate lock
log look mail maintain make manage mark measure mention merge message mix modify monitor move name navigate note notify
obtain offer open operate optimize order organize output overwrite pass paste pause pay perform pick place plan play
post prepare present preserve prevent print prioritize proceed process produce promote prompt propose protect provide
publish purchase push put query raise rank rate read rearrange rebook recommend record recover redirect reduce refer
refund register reject release rely remember remind remove rename rent reorder repeat replace reply report request
require reroute reschedule research reserve reset resolve respond restart restore restrict retrieve return reveal
reverse review revise revoke rewrite run save say scan schedule search see select sell send serve set share shift ship
show shut sign sort speak specify start stop store submit subscribe suggest summarize supply support suspend switch sync
take talk tell terminate test text think track trade transcribe transfer transform translate transmit treat trigger trim
try turn tweet type uninstall unlock unsubscribe update upgrade upload use utilize validate verify view visit vote wait
warn watch wipe withdraw work wrap write`},
		{you, `you your yours yourself u`},
		{me, `i me my mine we us our myself`},
		{polite, `please kindly pls`},
		{negation, `not dont never no without cannot cant instead nothing neither doesnt wont shouldnt mustnt`},
		{modal, `must should shall need needs have has will would can could may might ought required mandatory obliged
supposed`},
		{article, `the a an this that these those all any every each some its their his her`},
		{conjunction, `and or then but also so if when before after once while until because first next finally now
immediately always`},
		{preposition, `to of in on at for from with by into about as via under over within through`},
		{readerName, `ai assistant assistants agent agents bot chatbot llm llms gpt claude gemini chatgpt copilot model models
robot machine system admin administrator developer`},
		{order, `instruction instructions command commands task tasks prompt prompts rule rules directive directives order
orders request requests guideline guidelines policy policies goal goals objective objectives constraint constraints
restriction restrictions`},
		{prior, `previous prior above earlier preceding former original initial existing old current following below new real
actual next additional`},
		{override, `ignore disregard forget skip bypass override discard neglect omit suppress overrule circumvent abandon
overlook`},
		{reply, `reply answer answers response responses output outputs message messages summary conclusion result results
solution conversation`},
		{secret, `password passwords passcode credential credentials token tokens secret secrets key keys pin ssn account
accounts bank iban card cards history data information details address addresses contact contacts`},
	} {
		for _, w := range strings.Fields(list.words) {
			t.put(hashString(w), list.class)
		}
	}
	for h, c := range map[uint64]class{identHash: ident, emailHash: address, urlHash: address, numberHash: number} {
		t.put(h, c)
	}
	return t
}()

// classSlots is the size of the hash table: a power of two, several times the number of words.
const classSlots = 4096

type classed struct {
	hash  uint64
	class class
}

type classTable [classSlots]classed

func (t *classTable) put(hash uint64, c class) { *t.slot(hash) = classed{hash, c} }

// slot returns the entry of a hash, or the empty entry at the end of its probe sequence.
func (t *classTable) slot(hash uint64) *classed {
	for i := hash >> 20; ; i++ {
		if s := &t[i%classSlots]; s.hash == hash || s.hash == 0 {
			return s
		}
	}
}

func classOf(hash uint64) class { return classes.slot(hash).class }
