/** A shop that answers as the test wants: `status` for stock, coupons and orders, after `delayMs`. */
import http from "node:http";

export class Shop {
  static async start() {
    const shop = new Shop();
    shop.server = http.createServer(async (request, response) => {
      for await (const _ of request);
      shop.calls.push(`${request.method} ${request.url}`);
      await new Promise((resolve) => setTimeout(resolve, shop.delayMs));
      response.writeHead(shop.status, { "content-type": "text/plain" }).end(shop.says);
    });
    await new Promise((resolve) => shop.server.listen(0, "127.0.0.1", resolve));
    shop.host = `127.0.0.1:${shop.server.address().port}`;
    return shop;
  }

  status = 200;
  says = "";
  delayMs = 0;
  calls = [];

  /** A timer type that asks this shop; `checked` also when it decides. */
  async type(server, name, { checked = false, ...more } = {}) {
    const { digest } = await server.call("GET", "/v1/types/order-timeout");
    const config = { inventory_url: `http://${this.host}/stock`, coupon_url: `http://${this.host}/coupons`, ...(checked ? { order_url: `http://${this.host}/orders` } : {}) };
    const grants = [`http:${this.host}`, ...(checked ? [`on-expire:http:${this.host}`] : [])];
    return server.call("PUT", `/v1/types/${name}`, { digest, config, grants, ...more });
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
