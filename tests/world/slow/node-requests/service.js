// Requests whose objects live until 400 later ones have come; then they are garbage.
const open = [];
let sum = 0;
for (let request = 0; request < 12000; request++) {
  const rows = [];
  for (let row = 0; row < 400; row++) rows.push({ id: request * 400 + row, name: 'n' + row, tags: [row, request] });
  open.push(rows);
  if (open.length > 400) for (const row of open.shift()) sum += row.tags[0];
}
console.log(sum);
