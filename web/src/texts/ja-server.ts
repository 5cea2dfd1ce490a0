// 種類とその値で届くサーバーの文の日本語。種類がそろっていることは、コンパイラがサーバーの API の記述と比べて確認する。

import * as format from "../format";
import type { Alarm, AlarmWords, Problem, ProblemType, StreamFact } from "../server";

type Cause<Kind extends Alarm["kind"]> = Extract<Alarm, { kind: Kind }>;
type VolumeDiskState = Cause<"volume_disk">["state"];

const VOLUME_DISK: Record<VolumeDiskState, string> = {
  wrong_copies_other_away: "には誤った複製があります。正しい複製は、見つからないディスクにある可能性があります。そのディスクを戻してから `isocast volume scrub` を実行してください",
  wrong_copies: "には、書き直せなかった誤った複製があります。`isocast volume replace` で交換するか、`isocast volume scrub` を実行してください",
  filling: "に書き込み中です。終わるまで複製は少なくなります",
  out: "は切り離されています。すべて、ほかの複製から読み取っています。ディスクを戻すか、`isocast volume replace` で交換してください",
  missing: "が見つかりません。ボリュームは変更を受け付けず、コンテンツも配信されません。ディスクを戻し、サーバーを再起動してください",
  read_only: "に書き込めません。`isocast volume remove` で、コンテンツをほかのディスクへ移せます",
  failed: "が故障しています。ボリュームは変更を受け付けません。ディスクが応答するようになったら、サーバーを再起動してください",
};
const KEEPERS: Record<string, string> = { disk: "ディスク", volume: "ボリューム", quota: "容量制限" };

const days = (seconds: number, digits = 0) => `${(seconds / 86_400).toFixed(digits)} 日`;
const span = (seconds: number) => (seconds < 48 * 3600 ? `${(seconds / 3600).toFixed(0)} 時間` : days(seconds));
const inBrackets = (text?: string | null) => (text ? `（${text}）` : "");

const CAUSES: { [Kind in Alarm["kind"]]: (cause: Cause<Kind>) => string } = {
  volume_disk: ({ disk, path, state, error }) => `ディスク ${disk}（${path ?? "パス不明"}）${VOLUME_DISK[state]}${inBrackets(error)}`,
  volume_missing: ({ contents }) => `コンテンツ ${contents} 個の一部が、見つからないディスクにあります`,
  volume_damaged: ({ contents, copies }) =>
    contents > 0
      ? `コンテンツ ${contents} 個のすべての複製が壊れています。名前は \`isocast volume scrub\` で分かります（イベント \`copy_lost\`）。保存し直してください`
      : `前回のスクラブで複製 ${copies} 個を修復できませんでした。名前は \`isocast volume scrub\` で分かります（イベント \`copy_lost\`、\`copy_unwritten\`）。保存し直してから、もう一度スクラブしてください`,
  volume_scrub: ({ since_seconds: since, contents_unknown: unknown }) =>
    since == null
      ? "一度もスクラブされていません。`isocast volume scrub` はすべての複製を読み取ります"
      : unknown > 0
        ? `前回のスクラブでは、ディスクがなかったため、コンテンツ ${unknown} 個の複製をすべては読み取れませんでした。ディスクが戻ったら、もう一度スクラブしてください`
        : `${days(since)}間スクラブされていません`,
  disk_failing: ({ failure, errors }) => (failure === "erring" ? `エラーを返しているため（${errors} 回）、新しい要求を送っていません` : "応答しないため、新しい要求を送っていません"),
  disk_assumed: ({ doubt }) => `ディスクの値は測定されていません（${doubt}）。受け付けるストリームが少なすぎるか、多すぎる可能性があります`,
  folder_away: () => "起動時のフォルダーと異なります（アンマウント、名前の変更、または削除）",
  quota_full: ({ percent }) => `容量制限の ${percent} % を使用しています。収まらないアップロードは拒否されます（507）`,
  full_soon: ({ of, free_bytes: free, left_seconds: left, seen_seconds: seen, bytes_per_day: perDay }) =>
    free == null
      ? `${KEEPERS[of] ?? of}がいっぱいです`
      : `${KEEPERS[of] ?? of}は、最近 ${span(seen)}の増え方（1 日 ${format.size(perDay)}）では、${span(left)}後にいっぱいになります。残りは ${format.size(free)} です`,
  job_failed: ({ reason }) => `前回の実行が失敗しました: ${reason ?? "理由は不明です"}`,
  webhook_waiting: ({ events, error }) => `イベント ${events} 件が配信を待っています: ${error}`,
  webhook_ended: ({ error }) => `送信先がイベントの受信を終了しました: ${error}`,
  certificate_expired: () => "有効期限が切れたため、クライアントに拒否されます。新しい証明書と鍵でファイルを置き換えてください",
  certificate_expires: ({ left_seconds: left }) => `あと ${days(left, 1)}で期限が切れます。新しい証明書と鍵でファイルを置き換えてください`,
  certificate_refused: ({ problem }) => `新しい証明書を使えません: ${problem}。前の証明書を使い続けています`,
  configuration_refused: ({ problem }) => `設定を使えません: ${problem}。前の設定が有効です。直してから、もう一度読み込ませてください（SIGHUP）`,
};

/** 種類ごとの影響と、コマンドの説明。 */
const REMEDIES: Record<Alarm["kind"], [why: string, note?: string]> = {
  volume_disk: ["もう 1 台が故障すると、コンテンツが失われるか、配信できなくなります"],
  volume_missing: ["これらのコンテンツは、全部または一部が 503 になります", "ディスクが分かります。戻して再起動してください"],
  volume_damaged: ["壊れた箇所で配信が途切れます", "名前が分かります。保存し直してから、もう一度スクラブしてください"],
  volume_scrub: ["読まれない複製の誤りは、別のディスクが故障するまで見つかりません", "すべての複製を読み取ります"],
  disk_failing: ["このディスクではストリームを受け付けません"],
  disk_assumed: ["受け付ける量を、別のディスクの値で計算しています", "その後、再起動してください。実行しなければ、何も動いていないときに測定されます"],
  folder_away: ["中のコンテンツは 503 になります", "理由はイベントログの `root_away` にあります"],
  quota_full: ["このフォルダーへのアップロードは拒否されます", "容量制限を増やすか、コンテンツを削除してください"],
  full_soon: ["いっぱいになると、アップロードと録画は拒否されます（507）", "コンテンツを削除するか、`keep` ジョブかリングに削除させてください"],
  job_failed: ["実行が成功するまで、その作業は終わりません", "理由はイベントログの `job_failed` にあります"],
  webhook_waiting: ["送信先に障害が伝わりません", "送信先を直してください。イベントは 1 日保存されます"],
  webhook_ended: ["送信先には、どのイベントも届きません", "送信先を直すか、Webhook を削除した後に実行してください"],
  certificate_expired: ["クライアントがサーバーに接続できません", "または、新しい証明書と鍵をファイルに上書きしてください。10 秒以内に有効になります"],
  certificate_expires: ["期限が切れると、クライアントがサーバーに接続できません", "または、新しい証明書と鍵をファイルに上書きしてください。10 秒以内に有効になります"],
  certificate_refused: ["使用中の証明書が更新されません", "ファイルの誤りが分かります。認証局の理由はイベント `certificate_refused` にあります"],
  configuration_refused: ["変更は有効にならず、次の起動は失敗します", "誤りがすべて分かります。直した後は `systemctl reload isocast` を実行してください"],
};

/** アラームの文。知らない種類なら、サーバーの英語の文。 */
export function alarm(alarm: Alarm): AlarmWords {
  const [cause, remedy] = [CAUSES[alarm.kind] as ((cause: Alarm) => string) | undefined, REMEDIES[alarm.kind] as [string, string?] | undefined];
  if (cause === undefined || remedy === undefined) return alarm;
  return { text: cause(alarm), why: remedy[0], remedy: alarm.remedy, note: remedy[1] };
}

const ORIGINS: Record<Extract<StreamFact, { fact: "reserved" }>["from"], string> = {
  request: "リクエストまたはリンクの指定",
  content: "コンテンツが必要とするレート",
  path: "このパスの設定",
  left_over: "指定なし",
};

const FACTS: { [Kind in StreamFact["fact"]]: (fact: Extract<StreamFact, { fact: Kind }>) => string } = {
  waits: () => "受け付けを待っています。",
  no_rate: () => "レートの保証はありません。保証のあるストリームの残りを使います。",
  no_room: ({ from }) => `必要なレート（${ORIGINS[from]}）の空きがありませんでした。このパスは、その場合ベストエフォートで配信する設定です。`,
  passed_on: ({ rate_bps: rate, to }) => `${format.rate(rate)} の予約は、同じ視聴者のストリーム ${to} に移りました。残りのレートで配信しています。`,
  lost: ({ rate_bps: rate }) => `クライアントが受信しなかったか、ディスクが遅すぎたため、${format.rate(rate)} の予約を失いました。受信が再開し、空きができれば、予約に戻ります。`,
  reserved: ({ rate_bps: rate, from }) => `${format.rate(rate)} を予約しています（${ORIGINS[from]}）。`,
  placed: ({ place, of }) => `このディスクで保証のあるストリーム ${of} 本のうち、古い順に ${place} 番目です。ディスクが全部には遅すぎるときは、新しいストリームから終了します。`,
  client_holds: () => "クライアントが受信しないため、待っています。",
  disk_holds: ({ slowdown }) => `ディスクを待っています。送る時刻になっても、まだ読まれていないデータがあります。ディスクは測定時の ${slowdown.toFixed(2)} 倍の時間がかかっています。`,
  ahead: () => "待ちはありません。送信側がレートより先に進んでいました。",
  on_time: ({ misses }) => `待ちはありません。遅れた送信は ${misses} 回です。`,
};

/** ストリームについての事実の文。知らない種類があれば null。 */
export function fact(fact: StreamFact): string | null {
  return (FACTS[fact.fact] as ((fact: StreamFact) => string) | undefined)?.(fact) ?? null;
}

/** 問題の種類ごとの文。`true`: 理由がいくつもあるので、サーバーの英語の説明を添える。 */
const PROBLEMS: Record<ProblemType, [text: string, detail?: true]> = {
  "urn:isocast:no-room": ["このレートで受け付ける空きがありません"],
  "urn:isocast:busy": ["処理中のリクエストが多すぎます。しばらくしてから、もう一度試してください"],
  "urn:isocast:stopping": ["サーバーは停止しようとしています"],
  "urn:isocast:starting": ["サーバーは起動中です"],
  "urn:isocast:login-needed": ["ログインが必要です"],
  "urn:isocast:login-wrong": ["名前またはパスワードが違います"],
  "urn:isocast:token-invalid": ["トークンが無効です"],
  "urn:isocast:link-invalid": ["共有リンクが無効か、期限または回数を超えています"],
  "urn:isocast:no-right": ["この操作の権限がありません"],
  "urn:isocast:quota": ["フォルダーの容量制限を超えます", true],
  "urn:isocast:budget": ["利用枠を使い切っています", true],
  "urn:isocast:bad-request": ["入力が正しくありません", true],
  "urn:isocast:forbidden": ["許可されていません", true],
  "urn:isocast:not-found": ["見つかりません"],
  "urn:isocast:method": ["この操作には対応していません", true],
  "urn:isocast:too-slow": ["リクエストが時間内に届きませんでした"],
  "urn:isocast:conflict": ["現在の状態では実行できません", true],
  "urn:isocast:length-needed": ["長さの指定が必要です"],
  "urn:isocast:precondition": ["同じ名前のコンテンツがあるか、その間に変更されています"],
  "urn:isocast:too-large": ["大きすぎます", true],
  "urn:isocast:address-too-long": ["アドレスが長すぎます"],
  "urn:isocast:media-type": ["この形式のデータは受け付けません", true],
  "urn:isocast:range": ["その範囲のデータはありません"],
  "urn:isocast:expectation": ["リクエストの条件に対応していません"],
  "urn:isocast:other-host": ["この名前では応答しない設定です", true],
  "urn:isocast:stage": ["内容が検査で拒否されました", true],
  "urn:isocast:locked": ["ほかのクライアントが使用中です", true],
  "urn:isocast:too-many": ["このクライアントの上限に達しています", true],
  "urn:isocast:head-too-large": ["リクエストのヘッダーが大きすぎます"],
  "urn:isocast:fault": ["サーバーの内部エラーです。場所はサーバーのログにあります"],
  "urn:isocast:unknown-method": ["この操作には対応していません"],
  "urn:isocast:unavailable": ["現在は利用できません", true],
  "urn:isocast:unsettled": ["ディスクが応答しないため、結果が分かりません。応答した後で確認してください"],
  "urn:isocast:version": ["HTTP のこのバージョンには対応していません"],
  "urn:isocast:storage-full": ["保存する空きがないか、書き込めません", true],
  "urn:isocast:refused": ["拒否されました", true],
};

/** 断られた理由の文。知らない種類なら null。 */
export function problem({ type, detail }: Problem): string | null {
  const known = type === undefined ? undefined : (PROBLEMS[type] as [string, true?] | undefined);
  if (known === undefined) return null;
  return known[1] === true ? `${known[0]}${inBrackets(detail)}` : known[0];
}
