package memproxy

import (
	"maps"
	"slices"
)

// route is one path of a store. In write and read, text lists the members that may contain the text of an item;
// the first existing member is used. All other strings of an item are judged together as its rest, except plain
// ids, names and times.
type route struct {
	pattern string // pattern of net/http with method
	write   *write
	read    *read
}

type write struct {
	list   string // body member with the items or a single item; empty: the body is the item
	text   []string
	delete bool // the request deletes the memory that the path or the body names
	// own allows the path only with the origin user or system, because the request deletes many memories at
	// once.
	own bool
	// form means that the body is a form with files instead of JSON. list is the field of the files.
	form bool
	// bare is the text that is proposed if the body has none, because the request makes the store change its
	// memories by itself.
	bare string
	// key lists the body members that identify a memory, in addition to the path.
	key []string
	// reread is the prefix of the path of a memory; its id follows. It is set if the store may rewrite the
	// text of a write.
	reread string
	// added is the event in the response to a write that distinguishes a new memory from an existing
	// one.
	added string
}

type read struct {
	// list is the response member with the items. A response can also be a list of items. If list is empty,
	// the response is the item.
	list string
	text []string
}

var (
	done       = &read{}
	mem0Found  = &read{"results", []string{"memory"}}
	mem0One    = &read{"", []string{"memory"}}
	facts      = &read{"facts", []string{"fact"}}
	named      = []string{"namespace", "key"}
	itemsFound = &read{"items", []string{"value"}}
	forgets    = []string{"everything", "memoryOnly", "memory_only", "dataset", "datasetId", "dataset_id",
		"dataId", "data_id"}
	recalled = []string{"answer", "text", "content", "search_result"}
)

// kinds are the stores with a known HTTP interface.
var kinds = map[string][]route{
	// The self-hosted server of mem0.
	"mem0": {
		{"POST /memories", &write{list: "messages", text: []string{"content"}, reread: "/memories/", added: "ADD"},
			mem0Found},
		{"GET /memories", nil, mem0Found},
		{"POST /search", nil, mem0Found},
		{"GET /memories/{id}", nil, mem0One},
		{"PUT /memories/{id}", &write{text: []string{"text", "data", "memory"}}, mem0One},
		{"DELETE /memories/{id}", &write{delete: true}, done},
		{"GET /memories/{id}/history", nil, &read{"results", []string{"new_memory"}}},
	},
	// The server of Graphiti. It turns messages into facts later and rewrites them.
	"graphiti": {
		{"POST /messages", &write{list: "messages", text: []string{"content"}}, done},
		{"POST /search", nil, facts},
		{"POST /get-memory", nil, facts},
		{"GET /episodes/{group}", nil, &read{"episodes", []string{"content"}}},
	},
	// The store of a LangGraph server.
	"langgraph": {
		{"PUT /store/items", &write{text: []string{"value"}, key: named}, done},
		{"GET /store/items", nil, &read{"", []string{"value"}}},
		{"DELETE /store/items", &write{delete: true, key: named}, done},
		{"POST /store/items/search", nil, itemsFound},
	},
	// The server of Cognee. It converts texts to a graph, and answers with texts of its model.
	"cognee": {
		{"POST /api/v1/remember", &write{list: "data", text: []string{"content"}, form: true}, done},
		{"POST /api/v1/remember/entry", &write{list: "entry", text: recalled}, done},
		{"POST /api/v1/recall", nil, &read{"", recalled}},
		{"GET /api/v1/recall", nil, &read{"", recalled}},
		{"POST /api/v1/improve", &write{text: []string{"data"}, bare: "(enriched by the store)"}, done},
		{"POST /api/v1/forget", &write{delete: true, own: true, key: forgets}, done},
	},
}

// Kinds returns the names of the kinds.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }
