// See dot.h. The kernels are read from the words of TC_LOG=fusion:
//   k0 GEMM [1, 32, 10]: %2 matmul, %4 add, %5 relu
#include "tools/prof/dot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/graph_text.h"

static void print_span(tc_span s) {
  for (int i = 0; i < s.n; i++) {
    if (s.at[i] == '"' || s.at[i] == '\\') putchar('\\');
    putchar(s.at[i]);
  }
}

static void print_node(const char *prefix, const char *indent, const tc_node_text *node) {
  printf("%s\"%s%u\" [label=\"%%%u ", indent, prefix, node->number, node->number);
  print_span(node->op);
  printf("\\n");
  print_span(node->type);
  if (node->site.n) {
    printf("\\n");
    print_span(node->site);
  }
  printf("\"%s]\n", node->operands.n ? "" : ", style=filled");
}

static void print_edges(const char *prefix, const tc_graph_text *g) {
  for (size_t i = 0; i < g->n; i++) {
    int at = 0;
    for (uint32_t from; tc_operand_next(&g->node[i], &at, &from);)
      printf("  \"%s%u\" -> \"%s%u\"\n", prefix, from, prefix, g->node[i].number);
  }
}

static void print_recorded(const tc_graph_text *g) {
  printf("  subgraph cluster_recorded {\n    label=\"recorded\"\n");
  for (size_t i = 0; i < g->n; i++) print_node("r", "    ", &g->node[i]);
  printf("  }\n");
  print_edges("r", g);
}

static const tc_node_text *find_node(const tc_graph_text *g, uint32_t number) {
  if (number < g->n && g->node[number].number == number) return &g->node[number];
  for (size_t i = 0; i < g->n; i++)
    if (g->node[i].number == number) return &g->node[i];
  return NULL;
}

// One kernel's line, "k0 GEMM [1, 32, 10]: %2 matmul, ..", as a cluster. A node may be in several.
static void print_kernel(const tc_graph_text *g, tc_span line, bool *drawn) {
  const char *colon = memchr(line.at, ':', (size_t)line.n);
  if (!colon) return;
  tc_span name = {line.at, (int)(colon - line.at)};
  printf("    subgraph \"cluster_");
  print_span((tc_span){line.at, (int)strcspn(line.at, " ")});
  printf("\" {\n      label=\"");
  print_span(name);
  printf("\"\n      style=rounded\n");
  for (const char *at = colon; at < line.at + line.n; at++) {
    if (*at != '%') continue;
    const tc_node_text *node = find_node(g, (uint32_t)strtoul(at + 1, NULL, 10));
    if (!node || drawn[node - g->node]) continue;
    print_node("s", "      ", node);
    drawn[node - g->node] = true;
  }
  printf("    }\n");
}

static bool print_lowered(const tc_graph_text *g, const char *fusion) {
  bool *drawn = calloc(g->n + 1, sizeof *drawn);
  if (!drawn) return false;
  printf("  subgraph cluster_lowered {\n    label=\"lowered\"\n");
  while (*fusion) {
    tc_span line = {fusion, (int)strcspn(fusion, "\n")};
    if (line.at[0] == 'k' && line.n > 1 && line.at[1] >= '0' && line.at[1] <= '9') print_kernel(g, line, drawn);
    fusion += line.n;
    fusion += *fusion == '\n';
  }
  for (size_t i = 0; i < g->n; i++)
    if (!drawn[i]) print_node("s", "    ", &g->node[i]);
  printf("  }\n");
  print_edges("s", g);
  free(drawn);
  return true;
}

bool tc_dot_print(tc_profile *p, const tc_prof_plan *plan) {
  tc_graph_text recorded = {0}, simplified = {0};
  bool ok = tc_graph_text_parse(tc_profile_text(p, plan->graph), &recorded) &&
            tc_graph_text_parse(tc_profile_text(p, plan->simplified), &simplified);
  if (ok) {
    printf("digraph plan_%u {\n  node [shape=box, fontname=monospace]\n", plan->id);
    print_recorded(&recorded);
    ok = print_lowered(&simplified, tc_profile_text(p, plan->fusion));
    printf("}\n");
  }
  tc_graph_text_free(&recorded);
  tc_graph_text_free(&simplified);
  return ok;
}
